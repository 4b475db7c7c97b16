import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** A listener that does nothing, in POP mode. The groups bench-java-1, -2 and so on must exist. */
final class Pop implements Work {
    private final String nameServer;
    private int number;
    private DefaultMQPushConsumer consumer;

    Pop(String nameServer) {
        this.nameServer = nameServer;
    }

    @Override
    public void prepare(Job job) throws Exception {
        number++;
        consumer = new DefaultMQPushConsumer("bench-java-" + number);
        consumer.setNamesrvAddr(nameServer);
        consumer.setClientRebalance(false); // otherwise it pulls, whatever the mode of the group
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(job.topic(), "*");
    }

    @Override
    public int run(Job job) throws Exception {
        AtomicInteger count = new AtomicInteger();
        CountDownLatch all = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            if (count.addAndGet(messages.size()) >= job.messages()) {
                all.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
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
