import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * RocketMQ's own classes: one call for each consumer and topic, as RocketMQ's clients do it.
 *
 * The lists are sorted in advance. The classes take no last result.
 */
final class RocketMq implements Peer<RocketMq.Input, Map<String, List<List<MessageQueue>>>> {
    record Input(List<List<MessageQueue>> topics, List<String> members) {}

    private final AllocateMessageQueueStrategy strategy;

    private RocketMq(AllocateMessageQueueStrategy strategy) {
        this.strategy = strategy;
    }

    public static void main(String[] args) throws Exception {
        AllocateMessageQueueStrategy strategy = switch (args[0]) {
            case "AVG" -> new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE" -> new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH" -> new AllocateMessageQueueConsistentHash();
            default -> throw new IllegalArgumentException("unknown strategy " + args[0]);
        };
        new Bench<>(new RocketMq(strategy)).play();
    }

    @Override
    public Input input(Group group, Map<String, List<List<MessageQueue>>> previous) {
        List<List<MessageQueue>> topics = new ArrayList<>();
        for (int topic = 0; topic < group.queues.length; topic++) {
            List<MessageQueue> queues = new ArrayList<>(group.queues[topic]);
            for (int id = 0; id < group.queues[topic]; id++) {
                queues.add(new MessageQueue(group.topic(topic), "broker-a", id));
            }
            topics.add(queues);
        }
        return new Input(topics, new ArrayList<>(group.members));
    }

    /** Return one list per topic for each member. */
    @Override
    public Map<String, List<List<MessageQueue>>> plan(Input input, long deadlineNanos) throws TooSlow {
        Map<String, List<List<MessageQueue>>> result = new HashMap<>();
        for (String member : input.members()) {
            List<List<MessageQueue>> own = new ArrayList<>(input.topics().size());
            for (List<MessageQueue> queues : input.topics()) {
                if (System.nanoTime() > deadlineNanos) {
                    throw new TooSlow();
                }
                own.add(strategy.allocate("group", member, queues, input.members()));
            }
            result.put(member, own);
        }
        return result;
    }

    @Override
    public String[][] owners(Group group, Map<String, List<List<MessageQueue>>> result) {
        String[][] owners = group.noOwners();
        result.forEach((member, topics) -> {
            for (int topic = 0; topic < topics.size(); topic++) {
                for (MessageQueue queue : topics.get(topic)) {
                    owners[topic][queue.getQueueId()] = member;
                }
            }
        });
        return owners;
    }
}
