import java.util.Collections;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Sends messages one by one, from several threads that share a producer. */
final class Send implements Work {
    private static final int BODY_BYTES = 1024;

    private final DefaultMQProducer producer = new DefaultMQProducer("bench-send");
    private final byte[] body = new byte[BODY_BYTES];
    private final int threads;

    Send(String nameServer, int threads) throws Exception {
        this.threads = threads;
        new Random(1).nextBytes(body);
        producer.setNamesrvAddr(nameServer);
        producer.setSendLatencyFaultEnable(true);
        producer.start();
    }

    @Override
    public int run(Job job) throws Exception {
        int eachSends = job.messages() / threads;
        Callable<Integer> sendSome = () -> {
            for (int each = 0; each < eachSends; each++) {
                producer.send(new Message(job.topic(), "bench", "key-" + each, body));
            }
            return eachSends;
        };
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        int sent = 0;
        for (Future<Integer> each : pool.invokeAll(Collections.nCopies(threads, sendSome))) {
            sent += each.get();
        }
        pool.shutdown();
        return sent;
    }

    @Override
    public void close() {
        producer.shutdown();
    }
}
