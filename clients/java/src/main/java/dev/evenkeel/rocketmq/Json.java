package dev.evenkeel.rocketmq;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads and writes the JSON of requests and answers.
 *
 * <p>It uses no library, because the JSON libraries that come with RocketMQ's client differ between
 * its versions.
 *
 * <p>An object becomes a {@code Map}, an array a {@code List}, a number a {@code Double}.
 */
final class Json {
    private static final int MOST_LEVELS = 64;

    private final String text;
    private int at;
    private int level;

    private Json(String text) {
        this.text = text;
    }

    /** @throws IllegalArgumentException if the text is not JSON */
    static Object read(String text) {
        Json json = new Json(text);
        Object value = json.readValue();
        json.skipSpace();
        if (json.at < text.length()) {
            throw json.fail("more than one value");
        }
        return value;
    }

    static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                quoted.append('\\').append(each);
            } else if (each < ' ') {
                quoted.append(String.format("\\u%04x", (int) each));
            } else {
                quoted.append(each);
            }
        }
        return quoted.append('"').toString();
    }

    private Object readValue() {
        char next = peek();
        switch (next) {
            case '{':
                return readObject();
            case '[':
                return readArray();
            case '"':
                return readString();
            default:
                return readWord();
        }
    }

    private Map<String, Object> readObject() {
        Map<String, Object> found = new LinkedHashMap<>();
        enter();
        if (!passes('}')) {
            do {
                peek();
                String key = readString();
                expect(':');
                found.put(key, readValue());
            } while (passes(','));
            expect('}');
        }
        level--;
        return found;
    }

    private List<Object> readArray() {
        List<Object> found = new ArrayList<>();
        enter();
        if (!passes(']')) {
            do {
                found.add(readValue());
            } while (passes(','));
            expect(']');
        }
        level--;
        return found;
    }

    private String readString() {
        StringBuilder found = new StringBuilder();
        take('"');
        while (true) {
            char next = take();
            if (next == '"') {
                return found.toString();
            }
            found.append(next == '\\' ? readEscaped() : next);
        }
    }

    private char readEscaped() {
        char kind = take();
        switch (kind) {
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                if (at + 4 > text.length()) {
                    throw fail("the text is cut off");
                }
                at += 4;
                return (char) Integer.parseInt(text.substring(at - 4, at), 16);
            default:
                return kind;
        }
    }

    private Object readWord() {
        int begin = at;
        while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(begin, at);
        switch (word) {
            case "null":
                return null;
            case "true":
                return true;
            case "false":
                return false;
            default:
                return Double.valueOf(word);
        }
    }

    private void enter() {
        at++;
        if (++level > MOST_LEVELS) {
            throw fail("too many levels");
        }
    }

    private char peek() {
        skipSpace();
        if (at >= text.length()) {
            throw fail("the text is cut off");
        }
        return text.charAt(at);
    }

    private char take() {
        if (at >= text.length()) {
            throw fail("the text is cut off");
        }
        return text.charAt(at++);
    }

    private void take(char wanted) {
        if (take() != wanted) {
            throw fail("missing " + wanted);
        }
    }

    private void expect(char wanted) {
        peek();
        take(wanted);
    }

    private boolean passes(char wanted) {
        if (peek() != wanted) {
            return false;
        }
        at++;
        return true;
    }

    private void skipSpace() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private IllegalArgumentException fail(String what) {
        return new IllegalArgumentException("not JSON: " + what + " at position " + at);
    }
}
