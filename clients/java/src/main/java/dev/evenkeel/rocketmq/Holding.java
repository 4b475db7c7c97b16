package dev.evenkeel.rocketmq;

import java.util.TreeMap;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A queue from the moment it is granted until nothing of it is in flight. Its member guards it. */
final class Holding {
    final MessageQueue queue;
    /** The next message to read, as stored when reading began; -1 until that is known. */
    long beginsAt = -1;
    /** Calls of the listener that are running. */
    int running;
    /** Handled messages that the client has not counted as done yet, by offset. */
    final TreeMap<Long, MessageExt> done = new TreeMap<>();
    /** The offset behind the last handled message; -1 if there is none. */
    long handledTo = -1;
    /** Where a message is or was handled that had been passed over; -1 if none is unhandled. */
    long gapAt = -1;
    /** When it is released at the latest; NaN while it is granted. */
    double leaveBy = Double.NaN;
    /** The client's record of it, from when reading begins; null for a retry topic. */
    Record record;
    /** The same, once it leaves; null if the client had none. */
    ProcessQueue left;
    /** It leaves only to be read anew: the client has dropped it by itself. */
    boolean restarts;
    boolean isReleasing;
    double releaseAt;
    /** Another member may read the queue: nothing of it counts any more. */
    boolean isOver;

    Holding(MessageQueue queue) {
        this.queue = queue;
    }

    boolean isLeaving() {
        return !Double.isNaN(leaveBy);
    }

    /** Whether a message may be handled: not one that was pulled for an earlier holding. */
    boolean mayBegin(MessageExt message) {
        boolean isMine = Member.isRetry(queue) || (record != null && record.has(message));
        return isMine && !isLeaving() && beginsAt >= 0 && message.getQueueOffset() >= beginsAt;
    }

    /** Whether it can be released now. */
    boolean isDue(double now) {
        return isLeaving() && !isReleasing && now >= releaseAt
                && (running == 0 || now >= leaveBy);
    }
}
