import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.PopStatus;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/**
 * Pops queues in their order with RocketMQ's own client, which nobody has granted them.
 *
 * <p>RocketMQ's push consumer never asks for the order, so this program sends the client's requests
 * itself. Arguments: name server, topic, group, number of queues, broker, address of the broker, and
 * output. It writes a line for each message, and acknowledges it.
 */
final class PopInOrder {
    private static final long ANSWER_MILLIS = 30_000;

    private final MQClientAPIImpl client;
    private final String topic;
    private final String group;
    private final String broker;
    private final String address;

    private PopInOrder(MQClientAPIImpl client, String[] args) {
        this.client = client;
        topic = args[1];
        group = args[2];
        broker = args[4];
        address = args[5];
    }

    public static void main(String[] args) throws Exception {
        ClientConfig config = new ClientConfig();
        config.setNamesrvAddr(args[0]);
        MQClientInstance instance = MQClientManager.getInstance().getOrCreateMQClientInstance(config);
        instance.start();
        PopInOrder popper = new PopInOrder(instance.getMQClientAPIImpl(), args);
        int queues = Integer.parseInt(args[3]);
        try (FileOutputStream out = new FileOutputStream(args[6], true)) {
            for (int queue = 0; ; queue = (queue + 1) % queues) {
                PopResult found = popper.pop(queue);
                if (found.getPopStatus() != PopStatus.FOUND) {
                    continue;
                }
                for (MessageExt each : found.getMsgFoundList()) {
                    String line = String.format("java %d %d %s%n", queue, each.getQueueOffset(),
                            new String(each.getBody(), StandardCharsets.US_ASCII));
                    out.write(line.getBytes(StandardCharsets.US_ASCII));
                    popper.acknowledge(each, queue);
                }
            }
        }
    }

    private PopResult pop(int queue) throws Exception {
        PopMessageRequestHeader request = new PopMessageRequestHeader();
        request.setConsumerGroup(group);
        request.setTopic(topic);
        request.setQueueId(queue);
        request.setMaxMsgNums(8);
        request.setInvisibleTime(10_000);
        request.setPollTime(200);
        request.setBornTime(System.currentTimeMillis());
        request.setInitMode(0);
        request.setExpType("TAG");
        request.setExp("*");
        request.setOrder(true);
        CompletableFuture<PopResult> answer = new CompletableFuture<>();
        client.popMessageAsync(broker, address, request, ANSWER_MILLIS, new PopCallback() {
            @Override
            public void onSuccess(PopResult result) {
                answer.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                answer.completeExceptionally(error);
            }
        });
        return answer.get();
    }

    private void acknowledge(MessageExt message, int queue) throws Exception {
        AckMessageRequestHeader request = new AckMessageRequestHeader();
        request.setConsumerGroup(group);
        request.setTopic(topic);
        request.setQueueId(queue);
        request.setOffset(message.getQueueOffset());
        request.setExtraInfo(message.getProperty(MessageConst.PROPERTY_POP_CK));
        CompletableFuture<AckResult> answer = new CompletableFuture<>();
        client.ackMessageAsync(address, ANSWER_MILLIS, new AckCallback() {
            @Override
            public void onSuccess(AckResult result) {
                answer.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                answer.completeExceptionally(error);
            }
        }, request);
        answer.get();
    }
}
