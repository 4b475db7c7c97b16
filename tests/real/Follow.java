import dev.evenkeel.rocketmq.EvenkeelFollower;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.client.impl.consumer.RebalanceImpl;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * RocketMQ's own consumer as a follower. It writes a line for each message that it has handled.
 *
 * <p>Arguments: name server, topic, group, coordinator, its group, token file, name, output, and
 * "orderly" or "concurrently", or "plain" if it does not follow. SIGTERM lets it leave. A message
 * whose body begins with "slow" takes a while; one whose body contains "bad" fails the first time.
 * The property "poll" says how often the client looks for new queues, in ms. The property "drop"
 * says how often the client drops a queue that it reads, as it does by itself after two minutes
 * without a pull.
 */
final class Follow {
    private static FileOutputStream out;
    private static String name;

    private Follow() {}

    public static void main(String[] args) throws Exception {
        name = args[6];
        out = new FileOutputStream(args[7], true);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMqClientApiTimeout(30_000); // so that no test fails on a busy machine
        consumer.setAwaitTerminationMillisWhenShutdown(10_000);
        consumer.setPollNameServerInterval(Integer.getInteger("poll", 30_000));
        consumer.subscribe(args[1], "*");
        if (args[8].equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                handle(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(1);
                return handle(messages)
                        ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                        : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
        if (!args[8].equals("plain")) {
            EvenkeelFollower.of(URI.create(args[3]), args[4], Path.of(args[5]))
                    .named(name).follow(consumer);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(consumer::shutdown));
        consumer.start();
        int dropMillis = Integer.getInteger("drop", 0);
        while (dropMillis > 0) {
            pause(dropMillis);
            dropOne(consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl(), args[1]);
        }
        Thread.currentThread().join();
    }

    private static void dropOne(RebalanceImpl client, String topic) {
        for (MessageQueue each : client.getProcessQueueTable().keySet()) {
            ProcessQueue record = client.getProcessQueueTable().get(each);
            if (each.getTopic().equals(topic) && record != null && record.getMsgCount().get() > 0) {
                record.setDropped(true);
                client.removeUnnecessaryMessageQueue(each, record);
                client.getProcessQueueTable().remove(each, record);
                return;
            }
        }
    }

    private static boolean handle(List<MessageExt> messages) {
        for (MessageExt each : messages) {
            String body = new String(each.getBody(), StandardCharsets.US_ASCII);
            boolean isFirst = each.getReconsumeTimes() == 0;
            pause(isFirst && body.startsWith("slow") ? 1500 : 2);
            if (isFirst && body.contains("bad")) {
                return false;
            }
            String line = String.format("%s %.3f %s %d %d %s%n", name, System.nanoTime() / 1e9,
                    each.getBrokerName(), each.getQueueId(), each.getQueueOffset(),
                    body.replaceAll("\\D", ""));
            try {
                out.write(line.getBytes(StandardCharsets.US_ASCII));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
        return true;
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
