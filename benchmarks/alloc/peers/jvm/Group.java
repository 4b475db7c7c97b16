import java.util.List;
import java.util.TreeSet;

/** The group to be planned: how many queues each topic has, and the members in order. */
final class Group {
    int[] queues = new int[0];
    final TreeSet<String> members = new TreeSet<>();

    String topic(int index) {
        return String.format("topic-%03d", index);
    }

    List<String> sortedMembers() {
        return List.copyOf(members);
    }

    String[][] noOwners() {
        String[][] owners = new String[queues.length][];
        for (int topic = 0; topic < queues.length; topic++) {
            owners[topic] = new String[queues[topic]];
        }
        return owners;
    }
}
