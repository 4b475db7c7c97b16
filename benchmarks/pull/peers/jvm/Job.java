import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.common.message.MessageQueue;

/** The messages to move: all of a topic, spread evenly over its queues. */
record Job(String topic, int queues, int messages) {
    List<MessageQueue> messageQueues() {
        List<MessageQueue> found = new ArrayList<>();
        for (int id = 0; id < queues; id++) {
            found.add(new MessageQueue(topic, "broker-a", id));
        }
        return found;
    }

    int messagesAQueue() {
        return messages / queues;
    }
}
