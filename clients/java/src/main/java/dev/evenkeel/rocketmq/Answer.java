package dev.evenkeel.rocketmq;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.common.message.MessageQueue;

/** The queues that a member may read from now on. Each answer replaces all older ones. */
final class Answer {
    final long revision;
    final Set<MessageQueue> grants;
    final double sessionSeconds;
    final double drainSeconds;
    final boolean keepsReading;
    /** RocketMQ's name of the group. */
    final String group;

    Answer(long revision, Set<MessageQueue> grants, double sessionSeconds, double drainSeconds,
            boolean keepsReading, String group) {
        this.revision = revision;
        this.grants = grants;
        this.sessionSeconds = sessionSeconds;
        this.drainSeconds = drainSeconds;
        this.keepsReading = keepsReading;
        this.group = group;
    }

    /** @throws RuntimeException if the text is not an answer */
    static Answer read(String text) {
        Map<?, ?> answer = (Map<?, ?>) Json.read(text);
        Map<?, ?> source = (Map<?, ?>) answer.get("source");
        if (source.get("messages") != null) {
            throw new IllegalArgumentException("the group has spec.balance: Messages, which only "
                    + "followers in Python support: use another group for this consumer");
        }
        return new Answer(
                ((Double) answer.get("revision")).longValue(),
                QueueIds.read((List<?>) answer.get("grants")),
                (Double) answer.get("sessionSeconds"),
                (Double) answer.get("drainSeconds"),
                "KeepReading".equals(answer.get("onOutage")),
                (String) source.get("group"));
    }
}
