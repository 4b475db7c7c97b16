package dev.evenkeel.rocketmq;

import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The client's record of a queue that the follower has begun; it knows its own messages.
 *
 * <p>A thread of the client may have looked whether a record is dropped, and call the listener when
 * the same queue is read anew. That message comes again in the new record, so the old one must be
 * refused.
 */
final class Record extends ProcessQueue {
    private final Set<MessageExt> messages =
            Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

    @Override
    public boolean putMessage(List<MessageExt> pulled) {
        messages.addAll(pulled);
        return super.putMessage(pulled);
    }

    boolean has(MessageExt message) {
        return messages.contains(message);
    }
}
