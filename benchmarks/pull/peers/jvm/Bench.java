import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;

/** Measures one of RocketMQ's clients; benchmarks/pull/player.py explains the jobs. */
final class Bench {
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private Bench() {}

    public static void main(String[] args) throws Exception {
        String nameServer = args[1];
        int atOnce = Integer.parseInt(args[2]);
        Work work = switch (args[0]) {
            case "RawPull" -> new RawPull(nameServer, atOnce);
            case "LitePull" -> new LitePull(nameServer, atOnce);
            case "Push" -> new Push(nameServer);
            case "Pop" -> new Pop(nameServer);
            case "BatchSend" -> new BatchSend(nameServer, atOnce);
            case "Send" -> new Send(nameServer, atOnce);
            default -> throw new IllegalArgumentException("unknown client " + args[0]);
        };
        BufferedReader jobs =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = jobs.readLine(); line != null; line = jobs.readLine()) {
            String[] words = line.split(" ");
            measure(work, new Job(
                    words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3])));
        }
        work.close();
        System.exit(0); // a consumer may leave threads that keep the process alive
    }

    private static void measure(Work work, Job job) throws Exception {
        work.prepare(job);
        long cpu = SYSTEM.getProcessCpuTime();
        long begun = System.nanoTime();
        int moved = work.run(job);
        double seconds = (System.nanoTime() - begun) / 1e9;
        double cpuSeconds = (SYSTEM.getProcessCpuTime() - cpu) / 1e9;
        work.cleanUp();
        System.out.printf(
                "{\"messages\": %d, \"seconds\": %f, \"cpu_seconds\": %f}%n",
                moved, seconds, cpuSeconds);
    }
}
