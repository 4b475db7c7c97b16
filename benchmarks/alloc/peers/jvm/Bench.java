import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;

/**
 * Plays a script from standard input on one peer, and prints one JSON line per measurement.
 *
 * benchmarks/alloc/scenarios.py writes the commands, and explains them.
 */
final class Bench<I, R> {
    private final Peer<I, R> peer;
    private final Group group = new Group();
    private R previous;
    private R measured;
    private String[][] previousOwners;
    private double warmUpSeconds;
    private int runs;
    private double deadlineSeconds;

    Bench(Peer<I, R> peer) {
        this.peer = peer;
    }

    void play() throws IOException {
        BufferedReader script =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            for (String line = script.readLine(); line != null; line = script.readLine()) {
                obey(line.split(" ", 2));
            }
        } catch (Peer.TooSlow error) {
            // All further commands need the result that did not come in time.
            System.out.println("{\"stopped\": true}");
        }
    }

    private void obey(String[] command) throws Peer.TooSlow {
        switch (command[0]) {
            case "limits" -> limit(command[1].split(" "));
            case "topics" -> group.queues =
                    Arrays.stream(command[1].split(",")).mapToInt(Integer::parseInt).toArray();
            case "members" -> {
                group.members.clear();
                group.members.addAll(List.of(command[1].split(",")));
            }
            case "join" -> group.members.add(command[1]);
            case "leave" -> group.members.remove(command[1]);
            case "forget" -> previous = null;
            case "plan" -> keep(settled(peer.plan(peer.input(group, previous), deadline())));
            case "keep" -> keep(measured);
            case "time" -> measure(command[1]);
            default -> throw new IllegalArgumentException("unknown command " + command[0]);
        }
    }

    private void limit(String[] words) {
        warmUpSeconds = Double.parseDouble(words[0]);
        runs = Integer.parseInt(words[1]);
        deadlineSeconds = Double.parseDouble(words[2]);
    }

    private void measure(String label) throws Peer.TooSlow {
        I input = peer.input(group, previous);
        List<Double> millis = new ArrayList<>();
        R result;
        try {
            result = repeat(input, millis);
        } catch (Peer.TooSlow error) {
            System.out.printf("{\"event\": \"%s\", \"over\": %.0f}%n", label, deadlineSeconds * 1e3);
            throw error;
        }
        measured = settled(result);
        print(label, millis, peer.owners(group, measured));
    }

    /** Warm up, then time as many of the requested runs as fit into the deadline. */
    private R repeat(I input, List<Double> millis) throws Peer.TooSlow {
        long begun = System.nanoTime();
        R result = timed(input, millis);
        if (millis.get(0) < warmUpSeconds * 1e3) {
            while (millisSince(begun) < warmUpSeconds * 1e3) {
                result = peer.plan(input, deadline());
            }
            millis.clear();
            begun = System.nanoTime();
        }
        while (millis.size() < runs && millisSince(begun) + last(millis) < deadlineSeconds * 1e3) {
            result = timed(input, millis);
        }
        return result;
    }

    private R timed(I input, List<Double> millis) throws Peer.TooSlow {
        long started = System.nanoTime();
        R result = peer.plan(input, deadline());
        millis.add(millisSince(started));
        return result;
    }

    private static double millisSince(long started) {
        return (System.nanoTime() - started) / 1e6;
    }

    private static double last(List<Double> values) {
        return values.isEmpty() ? 0 : values.get(values.size() - 1);
    }

    /** Settle a result; without previous owners, there is nothing to settle. */
    private R settled(R result) throws Peer.TooSlow {
        return previous == null ? result : peer.settled(group, result);
    }

    private void keep(R result) {
        previous = result;
        previousOwners = null;
    }

    private long deadline() {
        return System.nanoTime() + (long) (deadlineSeconds * 1e9);
    }

    private void print(String label, List<Double> millis, String[][] owners) {
        int[] loads = loads(owners);
        System.out.printf(
                Locale.ROOT,
                "{\"event\": \"%s\", \"ms\": %.3f, \"runs\": %d, \"moved\": %d, \"low\": %d, \"high\": %d}%n",
                label, median(millis), millis.size(), moved(owners), loads[0], loads[loads.length - 1]);
    }

    /** Return the loads in rising order; members that own nothing count too. */
    private int[] loads(String[][] owners) {
        Map<String, Integer> counts = new HashMap<>();
        group.members.forEach(member -> counts.put(member, 0));
        for (String[] topic : owners) {
            for (String owner : topic) {
                if (owner != null) {
                    counts.merge(owner, 1, Integer::sum);
                }
            }
        }
        return counts.values().stream().mapToInt(Integer::intValue).sorted().toArray();
    }

    /** Count the queues that had an owner and now have another one, or none. */
    private int moved(String[][] owners) {
        if (previous == null) {
            return 0;
        }
        if (previousOwners == null) {
            previousOwners = peer.owners(group, previous);
        }
        int moved = 0;
        for (int topic = 0; topic < owners.length; topic++) {
            int common = Math.min(owners[topic].length, previousOwners[topic].length);
            for (int queue = 0; queue < common; queue++) {
                String before = previousOwners[topic][queue];
                if (before != null && !Objects.equals(before, owners[topic][queue])) {
                    moved++;
                }
            }
        }
        return moved;
    }

    private static double median(List<Double> values) {
        List<Double> sorted = values.stream().sorted().toList();
        int middle = sorted.size() / 2;
        return sorted.size() % 2 == 1
                ? sorted.get(middle)
                : (sorted.get(middle - 1) + sorted.get(middle)) / 2;
    }
}
