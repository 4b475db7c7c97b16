package dev.evenkeel.rocketmq;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.common.message.MessageQueue;

/** Queues as requests and answers contain them: ids such as "0-3,8" by topic and broker. */
final class QueueIds {
    private static final int MOST_QUEUES = 100_000;

    private QueueIds() {}

    static Set<MessageQueue> read(List<?> entries) {
        Set<MessageQueue> found = new HashSet<>();
        for (Object each : entries) {
            Map<?, ?> entry = (Map<?, ?>) each;
            String topic = (String) entry.get("topic");
            String broker = (String) entry.get("broker");
            for (String range : ((String) entry.get("ids")).split(",")) {
                String[] ends = range.split("-");
                int last = Integer.parseInt(ends[ends.length - 1]);
                for (int id = Integer.parseInt(ends[0]); id <= last; id++) {
                    found.add(new MessageQueue(topic, broker, id));
                    if (found.size() > MOST_QUEUES) {
                        throw new IllegalArgumentException("more than " + MOST_QUEUES + " queues");
                    }
                }
            }
        }
        return found;
    }

    static String write(Collection<MessageQueue> queues) {
        List<String> entries = new ArrayList<>();
        group(queues).forEach((topic, brokers) -> brokers.forEach((broker, ids) -> entries.add(
                "{\"topic\":" + Json.quote(topic) + ",\"broker\":" + Json.quote(broker)
                        + ",\"ids\":\"" + writeRanges(ids) + "\"}")));
        return "[" + String.join(",", entries) + "]";
    }

    /** Writes queues for people: {@code orders@broker-a 0-3,8}. */
    static String show(Collection<MessageQueue> queues) {
        List<String> entries = new ArrayList<>();
        group(queues).forEach((topic, brokers) -> brokers.forEach((broker, ids) ->
                entries.add(topic + "@" + broker + " " + writeRanges(ids))));
        return entries.isEmpty() ? "none" : String.join(", ", entries);
    }

    private static Map<String, Map<String, SortedSet<Integer>>> group(
            Collection<MessageQueue> queues) {
        Map<String, Map<String, SortedSet<Integer>>> found = new TreeMap<>();
        for (MessageQueue each : queues) {
            found.computeIfAbsent(each.getTopic(), topic -> new TreeMap<>())
                    .computeIfAbsent(each.getBrokerName(), broker -> new TreeSet<>())
                    .add(each.getQueueId());
        }
        return found;
    }

    private static String writeRanges(SortedSet<Integer> ids) {
        List<String> ranges = new ArrayList<>();
        Integer first = null;
        for (Integer id : ids) {
            first = first == null ? id : first;
            if (!ids.contains(id + 1)) {
                ranges.add(first.equals(id) ? "" + id : first + "-" + id);
                first = null;
            }
        }
        return String.join(",", ranges);
    }
}
