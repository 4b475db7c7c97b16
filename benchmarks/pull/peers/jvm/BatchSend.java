import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Sends collections of messages synchronously. */
final class BatchSend implements Work {
    private static final int BODY_BYTES = 1024;

    private final DefaultMQProducer producer = new DefaultMQProducer("bench-batch-send");
    private final byte[] body = new byte[BODY_BYTES];
    private final int aBatch;

    BatchSend(String nameServer, int aBatch) throws Exception {
        this.aBatch = aBatch;
        new Random(1).nextBytes(body);
        producer.setNamesrvAddr(nameServer);
        producer.start();
    }

    @Override
    public int run(Job job) throws Exception {
        for (int first = 0; first < job.messages(); first += aBatch) {
            List<Message> batch = new ArrayList<>();
            for (int each = first; each < Math.min(first + aBatch, job.messages()); each++) {
                batch.add(new Message(job.topic(), "bench", "key-" + each, body));
            }
            producer.send(batch);
        }
        return job.messages();
    }

    @Override
    public void close() {
        producer.shutdown();
    }
}
