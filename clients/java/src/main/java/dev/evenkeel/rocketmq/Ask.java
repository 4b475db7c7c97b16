package dev.evenkeel.rocketmq;

import java.util.Set;
import org.apache.rocketmq.common.message.MessageQueue;

/** A member's request for grants. It reports which queues the member holds. */
final class Ask {
    final String session;
    final int number;
    final long revision;
    final Set<MessageQueue> holds;
    final double waitSeconds;
    final String clientId;
    final double limitSeconds;

    Ask(String session, int number, long revision, Set<MessageQueue> holds,
            double waitSeconds, String clientId, double limitSeconds) {
        this.session = session;
        this.number = number;
        this.revision = revision;
        this.holds = holds;
        this.waitSeconds = waitSeconds;
        this.clientId = clientId;
        this.limitSeconds = limitSeconds;
    }

    String write() {
        return "{\"session\":" + Json.quote(session) + ",\"number\":" + number
                + ",\"revision\":" + revision + ",\"holds\":" + QueueIds.write(holds)
                + ",\"waitSeconds\":" + waitSeconds
                + ",\"clientId\":" + Json.quote(clientId) + "}";
    }
}
