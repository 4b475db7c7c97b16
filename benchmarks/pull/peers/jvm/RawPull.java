import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageQueue;

/** The plain pull client, with a thread per queue, so that it has as many pulls in flight as ours. */
@SuppressWarnings("deprecation") // there is no other plain pull
final class RawPull implements Work {
    private final DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("bench-raw-pull");
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final int most;

    RawPull(String nameServer, int most) throws Exception {
        this.most = most;
        consumer.setNamesrvAddr(nameServer);
        consumer.start();
    }

    @Override
    public int run(Job job) throws Exception {
        List<Callable<Integer>> pulls = new ArrayList<>();
        for (MessageQueue queue : job.messageQueues()) {
            pulls.add(() -> pull(queue, job.messagesAQueue()));
        }
        int count = 0;
        for (Future<Integer> pulled : threads.invokeAll(pulls)) {
            count += pulled.get();
        }
        return count;
    }

    private int pull(MessageQueue queue, int stop) throws Exception {
        int count = 0;
        for (long offset = 0; offset < stop; ) {
            PullResult result = consumer.pull(queue, "*", offset, most);
            if (result.getPullStatus() != PullStatus.FOUND) {
                throw new IllegalStateException(queue + " at " + offset + ": " + result);
            }
            count += result.getMsgFoundList().size();
            offset = result.getNextBeginOffset();
        }
        return count;
    }

    @Override
    public void close() {
        consumer.shutdown();
        threads.shutdown();
    }
}
