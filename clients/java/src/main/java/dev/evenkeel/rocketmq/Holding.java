package dev.evenkeel.rocketmq;

import java.util.TreeMap;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A queue that is held: granted, or with messages in flight. The member's lock guards it. */
final class Holding {
    final MessageQueue queue;
    /** The next message to read, as stored when reading began; -1 until that is known. */
    long beginsAt = -1;
    /** Calls of the listener that are running. */
    int running;
    /** Handled messages that the client has not counted as done yet, by offset. */
    final TreeMap<Long, MessageExt> done = new TreeMap<>();
    /** The offset after the last handled message; -1 if there is none. */
    long handledTo = -1;
    /** The offset of a skipped message, from its call until it is handled; otherwise -1. */
    long gapAt = -1;
    /** When the queue is released at the latest; NaN while it is granted. */
    double leaveBy = Double.NaN;
    /** The client's record of the queue, once reading begins; null for a retry topic. */
    Record record;
    /** The client's record, once the queue must be released; null if the client had none. */
    ProcessQueue left;
    /** The client has dropped the queue by itself, so it is released only to be read anew. */
    boolean restarts;
    boolean isReleasing;
    double releaseAt;
    /** Another member may read the queue, so results of this holding are ignored. */
    boolean isOver;

    Holding(MessageQueue queue) {
        this.queue = queue;
    }

    boolean isLeaving() {
        return !Double.isNaN(leaveBy);
    }

    /** Whether a message may be handled. It must not have been pulled for an earlier holding. */
    boolean mayBegin(MessageExt message) {
        boolean isMine = Member.isRetry(queue) || (record != null && record.has(message));
        return isMine && !isLeaving() && beginsAt >= 0 && message.getQueueOffset() >= beginsAt;
    }

    /** Whether the queue can be released now. */
    boolean isDue(double now) {
        return isLeaving() && !isReleasing && now >= releaseAt
                && (running == 0 || now >= leaveBy);
    }
}
