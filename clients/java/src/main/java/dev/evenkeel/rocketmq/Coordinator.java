package dev.evenkeel.rocketmq;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.Arrays;
import java.util.Map;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

/** Sends the requests of one member to the coordinator of its group. */
final class Coordinator {
    private static final int MOST_ANSWER_BYTES = 8 * 1024 * 1024;
    private static final double LEAVE_SECONDS = 3.0;

    private final String address;
    /** The file is read again for each request, because whoever provides the token renews it. */
    private final Path tokenFile;
    /** File of trusted certificates, read again for each request; null for Java's own. */
    private final Path authorities;
    private byte[] trusted;
    private SSLSocketFactory tls;

    Coordinator(URI coordinator, String group, String member, Path tokenFile, Path authorities) {
        String[] names = group.split("/", -1);
        if (names.length != 2 || names[0].isEmpty() || names[1].isEmpty()) {
            throw new IllegalArgumentException(
                    "group " + group + ": give NAMESPACE/NAME of the ConsumerGroup, such as "
                            + "shop/billing");
        }
        String base = coordinator.toString().replaceAll("/+$", "");
        if (!base.startsWith("http://") && !base.startsWith("https://")) {
            throw new IllegalArgumentException(
                    "coordinator " + coordinator + ": give a URL, such as http://127.0.0.1:9410");
        }
        this.address = base + "/v1/groups/" + escape(names[0]) + "/" + escape(names[1])
                + "/members/" + escape(member);
        this.tokenFile = tokenFile;
        this.authorities = authorities;
    }

    /**
     * Sends a request and waits for its answer.
     *
     * @throws IOException if the coordinator cannot be reached, or something else answers
     */
    Answer ask(Ask ask) throws IOException, RefusedException {
        String text = send("POST", address, ask.write(), ask.limitSeconds);
        try {
            return Answer.read(text);
        } catch (RuntimeException error) {
            throw new IOException(address + ": the answer cannot be read: " + error, error);
        }
    }

    /** Ends the session. The queues that it held are free at once. */
    void leave(String session) throws IOException, RefusedException {
        send("DELETE", address + "?session=" + escape(session), null, LEAVE_SECONDS);
    }

    private String send(String method, String url, String body, double seconds)
            throws IOException, RefusedException {
        HttpURLConnection connection =
                (HttpURLConnection) URI.create(url).toURL().openConnection();
        if (authorities != null && connection instanceof HttpsURLConnection) {
            ((HttpsURLConnection) connection).setSSLSocketFactory(findTls());
        }
        int millis = (int) Math.max(1, 1000 * seconds);
        connection.setConnectTimeout(millis);
        connection.setReadTimeout(millis);
        connection.setInstanceFollowRedirects(false);
        connection.setRequestMethod(method);
        connection.setRequestProperty("Content-Type", "application/json");
        if (tokenFile != null) {
            connection.setRequestProperty("Authorization", "Bearer " + readToken());
        }
        if (body != null) {
            connection.setDoOutput(true);
            try (OutputStream out = connection.getOutputStream()) {
                out.write(body.getBytes(StandardCharsets.UTF_8));
            }
        }
        int status = connection.getResponseCode();
        try (InputStream in = status < 400
                ? connection.getInputStream() : connection.getErrorStream()) {
            String text = in == null ? "" : readAll(in);
            if (status >= 200 && status < 300) {
                return text;
            }
            throw readRefusal(status, text);
        }
    }

    private RefusedException readRefusal(int status, String text) throws IOException {
        try {
            Map<?, ?> refusal = (Map<?, ?>) Json.read(text);
            boolean isOfToken = tokenFile != null
                    && (status == HttpURLConnection.HTTP_UNAUTHORIZED
                    || status == HttpURLConnection.HTTP_FORBIDDEN);
            return new RefusedException(
                    refusal.get("reason").toString(),
                    refusal.get("message") + (isOfToken ? "; its token is in " + tokenFile : ""));
        } catch (RuntimeException error) {
            throw new IOException(
                    address + " answers " + status + " and no reason: is it a coordinator?", error);
        }
    }

    private String readAll(InputStream in) throws IOException {
        ByteArrayOutputStream found = new ByteArrayOutputStream();
        byte[] part = new byte[8192];
        for (int count = in.read(part); count >= 0; count = in.read(part)) {
            found.write(part, 0, count);
            if (found.size() > MOST_ANSWER_BYTES) {
                throw new IOException(
                        address + " answers with more than " + MOST_ANSWER_BYTES + " bytes");
            }
        }
        return found.toString("UTF-8");
    }

    private String readToken() throws IOException {
        byte[] found;
        try {
            found = Files.readAllBytes(tokenFile);
        } catch (IOException error) {
            throw new IOException("the token file cannot be read: " + error, error);
        }
        String token = new String(found, StandardCharsets.UTF_8).trim();
        if (!token.matches("[!-~]+")) {
            throw new IOException(
                    "the file " + tokenFile + " holds no token: it must be one line of text");
        }
        return token;
    }

    private static String escape(String text) {
        try {
            return URLEncoder.encode(text, "UTF-8").replace("+", "%20");
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Returns the same factory while the file is unchanged, so that connections are reused. */
    private synchronized SSLSocketFactory findTls() throws IOException {
        byte[] certificates = Files.readAllBytes(authorities);
        if (!Arrays.equals(certificates, trusted)) {
            tls = trust(certificates);
            trusted = certificates;
        }
        return tls;
    }

    private SSLSocketFactory trust(byte[] certificates) throws IOException {
        try {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            int count = 0;
            for (Certificate each : CertificateFactory.getInstance("X.509")
                    .generateCertificates(new ByteArrayInputStream(certificates))) {
                store.setCertificateEntry("authority-" + count++, each);
            }
            TrustManagerFactory trust =
                    TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return context.getSocketFactory();
        } catch (GeneralSecurityException error) {
            throw new IOException("the certificates in " + authorities + " cannot be read", error);
        }
    }
}
