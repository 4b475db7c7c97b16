package dev.evenkeel.rocketmq;

import java.util.AbstractMap.SimpleEntry;
import java.util.Collection;
import java.util.HashSet;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentMap;
import java.util.logging.Logger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.ServiceState;
import org.apache.rocketmq.common.message.MessageQueue;

/** The queues that RocketMQ's client reads, by its internal interfaces of 4.9 and 5. */
final class ConsumerQueues {
    private static final Logger log = Logger.getLogger("dev.evenkeel.rocketmq");

    private final DefaultMQPushConsumerImpl client;
    private final Queue<Map.Entry<MessageQueue, ProcessQueue>> dropped =
            new ConcurrentLinkedQueue<>();

    ConsumerQueues(DefaultMQPushConsumer consumer) {
        this.client = consumer.getDefaultMQPushConsumerImpl();
    }

    boolean isRunning() {
        return client.getServiceState() == ServiceState.RUNNING;
    }

    boolean isOver() {
        return client.getServiceState() == ServiceState.SHUTDOWN_ALREADY;
    }

    boolean has(MessageQueue queue) {
        return table().containsKey(queue);
    }

    Set<MessageQueue> list() {
        return table().keySet();
    }

    /**
     * Stops a queue at once: no pull and no call of the listener begins any more.
     *
     * <p>The client looks at no result of calls that are running. Returns its record of the queue,
     * which must be forgotten; null if it has none.
     */
    ProcessQueue drop(MessageQueue queue) {
        ProcessQueue record = table().get(queue);
        if (record != null) {
            record.setDropped(true);
            table().remove(queue, record);
        }
        return record;
    }

    /** Forgets a record soon, if there is one. The caller does not wait for brokers. */
    void forgetLater(MessageQueue queue, ProcessQueue record) {
        if (record != null) {
            dropped.add(new SimpleEntry<>(queue, record));
        }
    }

    void forgetDropped() {
        for (int count = dropped.size(); count > 0; count--) {
            Map.Entry<MessageQueue, ProcessQueue> each = dropped.remove();
            forget(each.getKey(), each.getValue());
        }
    }

    /**
     * Does what the client does when a queue has gone: it unlocks one that is read in order.
     *
     * <p>4.9 does so only after 20 s if messages of it are in memory; hence they are removed first.
     */
    void forget(MessageQueue queue, ProcessQueue record) {
        record.clear();
        try {
            client.getRebalanceImpl().removeUnnecessaryMessageQueue(queue, record);
        } catch (RuntimeException error) {
            log.warning(queue + ": the client cannot tidy up: " + error);
        }
    }

    /**
     * Makes the client ask the strategy soon.
     *
     * <p>By itself it looks only every 30 s for queues that were added. So it is made to look if it
     * does not know these. The caller may wait for a name server.
     */
    void rebalance(Collection<MessageQueue> lacking) {
        Set<String> topics = new HashSet<>();
        for (MessageQueue each : lacking) {
            Set<MessageQueue> known =
                    client.getRebalanceImpl().getTopicSubscribeInfoTable().get(each.getTopic());
            if (known == null || !known.contains(each)) {
                topics.add(each.getTopic());
            }
        }
        topics.forEach(client.getmQClientFactory()::updateTopicRouteInfoFromNameServer);
        client.getmQClientFactory().rebalanceImmediately();
    }

    private ConcurrentMap<MessageQueue, ProcessQueue> table() {
        return client.getRebalanceImpl().getProcessQueueTable();
    }
}
