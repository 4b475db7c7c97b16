import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Kafka's broker-side UniformAssignor, called with a group specification as its coordinator does. */
final class KafkaUniform implements Peer<KafkaUniform.Input, Map<String, Assignment>> {
    record Input(GroupSpecImpl group, SubscribedTopicDescriber topics) {}

    private final UniformAssignor assignor = new UniformAssignor();

    public static void main(String[] args) throws Exception {
        new Bench<>(new KafkaUniform()).play();
    }

    @Override
    public Input input(Group group, Map<String, Assignment> previous) {
        Map<Uuid, Integer> topics = new HashMap<>();
        for (int topic = 0; topic < group.queues.length; topic++) {
            topics.put(id(topic), group.queues[topic]);
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (String member : group.members) {
            Assignment last = previous == null ? null : previous.get(member);
            Assignment owned = last == null ? Assignment.EMPTY : replayed(last);
            owned.partitions().forEach((topic, partitions) -> {
                Map<Integer, String> ofTopic = owners.computeIfAbsent(topic, t -> new HashMap<>());
                partitions.forEach(partition -> ofTopic.put(partition, member));
            });
            members.put(member, new MemberSubscriptionAndAssignmentImpl(
                    Optional.empty(), Optional.empty(), topics.keySet(), owned));
        }
        return new Input(
                new GroupSpecImpl(members, SubscriptionType.HOMOGENEOUS, owners),
                new Described(topics));
    }

    /** Plan, and keep the result as the coordinator does: one Assignment per member. */
    @Override
    public Map<String, Assignment> plan(Input input, long deadlineNanos) {
        GroupAssignment result = assignor.assign(input.group(), input.topics());
        Map<String, Assignment> assignments = new HashMap<>();
        result.members().forEach((member, assignment) ->
                assignments.put(member, new Assignment(assignment.partitions())));
        return assignments;
    }

    @Override
    public String[][] owners(Group group, Map<String, Assignment> result) {
        String[][] owners = group.noOwners();
        result.forEach((member, assignment) -> assignment.partitions().forEach((id, owned) ->
                owned.forEach(queue -> owners[index(id)][queue] = member)));
        return owners;
    }

    /** Copy into plain sets, which is what the coordinator has after it has read its own record. */
    private static Assignment replayed(Assignment last) {
        Map<Uuid, Set<Integer>> partitions = new HashMap<>();
        last.partitions().forEach((id, owned) -> partitions.put(id, new HashSet<>(owned)));
        return new Assignment(partitions);
    }

    private static Uuid id(int topic) {
        return new Uuid(0x5eed_0000_0000_4000L, 0x8000_0000_0000_0000L + topic);
    }

    private static int index(Uuid id) {
        return (int) id.getLeastSignificantBits();
    }

    /** Says how many partitions a topic has. There are no racks. */
    private record Described(Map<Uuid, Integer> topics) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid id) {
            return topics.getOrDefault(id, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid id, int partition) {
            return Set.of();
        }
    }
}
