import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.StringJoiner;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * One consumer of a group. Its arguments are name server, topic and group; SIGTERM shuts it down.
 *
 * <p>It prints a line of JSON for each call of its listener. Each line is one write, so a kill
 * leaves no half line behind, and no call without its line.
 */
final class Push {
    private static final FileOutputStream OUT = new FileOutputStream(FileDescriptor.out);

    private Push() {}

    public static void main(String[] args) throws Exception {
        run(make(args));
    }

    /** Make a consumer that is not started yet. */
    static DefaultMQPushConsumer make(String[] args) throws MQClientException {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            say(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return consumer;
    }

    static void run(DefaultMQPushConsumer consumer) throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(consumer::shutdown));
        consumer.start();
        Thread.currentThread().join();
    }

    /** Print the messages of one call, which are all from one queue. */
    private static void say(List<MessageExt> messages) {
        long now = System.currentTimeMillis();
        StringJoiner numbers = new StringJoiner(", ");
        StringJoiner stored = new StringJoiner(", ");
        for (MessageExt message : messages) {
            numbers.add(new String(message.getBody(), StandardCharsets.US_ASCII));
            stored.add(Long.toString(message.getStoreTimestamp()));
        }
        MessageExt first = messages.get(0);
        String line = String.format(
                "{\"ms\": %d, \"broker\": \"%s\", \"queue\": %d, \"numbers\": [%s], "
                        + "\"stored\": [%s]}%n",
                now, first.getBrokerName(), first.getQueueId(), numbers, stored);
        try {
            OUT.write(line.getBytes(StandardCharsets.US_ASCII));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
