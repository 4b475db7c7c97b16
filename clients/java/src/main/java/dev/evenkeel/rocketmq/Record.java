package dev.evenkeel.rocketmq;

import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The client's record of a queue that the follower has begun to read. It knows its own messages.
 *
 * <p>A thread of the client may check that a record is not dropped, and call the listener only
 * after the same queue is read anew. The message is delivered again with the new record, so the
 * call with the message of the old record must be refused.
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
