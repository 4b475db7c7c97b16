import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** A listener that does nothing, with order within a queue. A new group each time. */
final class Push implements Work {
    private final String nameServer;
    private DefaultMQPushConsumer consumer;

    Push(String nameServer) {
        this.nameServer = nameServer;
    }

    @Override
    public void prepare(Job job) throws Exception {
        consumer = new DefaultMQPushConsumer("bench-push-" + System.nanoTime());
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(job.topic(), "*");
    }

    @Override
    public int run(Job job) throws Exception {
        AtomicInteger count = new AtomicInteger();
        CountDownLatch all = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            if (count.addAndGet(messages.size()) >= job.messages()) {
                all.countDown();
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        all.await();
        return count.get();
    }

    @Override
    public void cleanUp() {
        consumer.shutdown();
    }
}
