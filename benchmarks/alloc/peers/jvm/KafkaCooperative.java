import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's client-side CooperativeStickyAssignor, as a group's leader calls it.
 *
 * Only the first round is timed. After it, queues that move have no owner, so a second round, which
 * is not timed, gives them their new owners.
 */
final class KafkaCooperative implements Peer<KafkaCooperative.Input, Map<String, Assignment>> {
    record Input(Cluster cluster, GroupSubscription group) {}

    private static final int NO_GENERATION = -1;
    private static final int GENERATION = 7;
    private static final Node BROKER = new Node(0, "localhost", 9092);

    private final CooperativeStickyAssignor assignor = new CooperativeStickyAssignor();

    public static void main(String[] args) throws Exception {
        new Bench<>(new KafkaCooperative()).play();
    }

    @Override
    public Input input(Group group, Map<String, Assignment> previous) {
        List<String> topics = new ArrayList<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        Node[] replicas = {BROKER};
        for (int topic = 0; topic < group.queues.length; topic++) {
            topics.add(group.topic(topic));
            for (int queue = 0; queue < group.queues[topic]; queue++) {
                partitions.add(
                        new PartitionInfo(topics.get(topic), queue, BROKER, replicas, replicas));
            }
        }
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (String member : group.members) {
            Assignment last = previous == null ? null : previous.get(member);
            subscriptions.put(member, new Subscription(
                    topics, null,
                    last == null ? List.of() : last.partitions(),
                    last == null ? NO_GENERATION : GENERATION,
                    Optional.empty()));
        }
        Cluster cluster = new Cluster("bench", List.of(BROKER), partitions, Set.of(), Set.of());
        return new Input(cluster, new GroupSubscription(subscriptions));
    }

    @Override
    public Map<String, Assignment> plan(Input input, long deadlineNanos) {
        return assignor.assign(input.cluster(), input.group()).groupAssignment();
    }

    @Override
    public Map<String, Assignment> settled(Group group, Map<String, Assignment> result) {
        return plan(input(group, result), Long.MAX_VALUE);
    }

    @Override
    public String[][] owners(Group group, Map<String, Assignment> result) {
        Map<String, Integer> indexes = new HashMap<>();
        for (int topic = 0; topic < group.queues.length; topic++) {
            indexes.put(group.topic(topic), topic);
        }
        String[][] owners = group.noOwners();
        result.forEach((member, assignment) -> {
            for (TopicPartition queue : assignment.partitions()) {
                owners[indexes.get(queue.topic())][queue.partition()] = member;
            }
        });
        return owners;
    }
}
