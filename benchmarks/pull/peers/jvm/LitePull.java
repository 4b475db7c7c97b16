import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** The newer pull client, which prefetches. Each job has a new group, so it reads from the start. */
final class LitePull implements Work {
    private final String nameServer;
    private final int most;
    private DefaultLitePullConsumer consumer;

    LitePull(String nameServer, int most) {
        this.nameServer = nameServer;
        this.most = most;
    }

    @Override
    public void prepare(Job job) throws Exception {
        consumer = new DefaultLitePullConsumer("bench-lite-pull-" + System.nanoTime());
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false); // our client commits nothing either
        consumer.setPullBatchSize(most);
        consumer.start();
    }

    @Override
    public int run(Job job) {
        consumer.assign(job.messageQueues());
        int count = 0;
        while (count < job.messages()) {
            count += consumer.poll().size();
        }
        return count;
    }

    @Override
    public void cleanUp() {
        consumer.shutdown();
    }
}
