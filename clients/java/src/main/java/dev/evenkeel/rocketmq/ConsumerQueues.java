package dev.evenkeel.rocketmq;

import java.util.AbstractMap.SimpleEntry;
import java.util.Collection;
import java.util.HashSet;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentMap;
import java.util.logging.Logger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.FindBrokerResult;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.client.impl.consumer.PullRequest;
import org.apache.rocketmq.client.impl.consumer.RebalanceImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.ServiceState;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.apache.rocketmq.remoting.protocol.RemotingSysResponseCode;

/** The queues that RocketMQ's client reads. Uses internal interfaces of the clients 4.9 and 5. */
final class ConsumerQueues {
    private static final long TIMEOUT_MS = 3000;
    private static final Logger log = Logger.getLogger("dev.evenkeel.rocketmq");

    private final DefaultMQPushConsumerImpl client;
    private final Queue<Map.Entry<MessageQueue, ProcessQueue>> dropped =
            new ConcurrentLinkedQueue<>();
    private final Set<Thread> beginners = ConcurrentHashMap.newKeySet();
    private volatile boolean isStarted;

    ConsumerQueues(DefaultMQPushConsumer consumer) {
        this.client = consumer.getDefaultMQPushConsumerImpl();
    }

    /**
     * Waits until the client's {@code start} has ended: the client holds its lock until then.
     *
     * <p>The client reports that it is running before it knows its topics, and before it has sent
     * heartbeats. If client 5 rebalances at that time, it counts its subscription as changed and
     * cannot inform the brokers. The brokers then refuse its pulls until the next heartbeat, after
     * 30 s.
     */
    void awaitStart() {
        synchronized (client) {
            isStarted = true;
        }
    }

    boolean isRunning() {
        return isStarted && client.getServiceState() == ServiceState.RUNNING;
    }

    /** This consumer's id at the brokers; empty before it has started. */
    String findClientId() {
        return factory() == null ? "" : factory().getClientId();
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
     * Stops reading a queue at once: no pull and no call of the listener begins any more.
     *
     * <p>The client ignores the results of calls that are running. Returns the client's record of
     * the queue, for which {@link #forget} must be called; null if the client has none.
     */
    ProcessQueue drop(MessageQueue queue) {
        ProcessQueue record = table().get(queue);
        if (record != null) {
            record.setDropped(true);
            table().remove(queue, record);
        }
        return record;
    }

    /** Notes a record for {@link #forgetDropped}, so that the caller need not wait for brokers. */
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
     * Cleans up as the client does when it drops a queue. This unlocks a queue read in order.
     *
     * <p>While messages of the queue are in memory, client 4.9 unlocks it only after 20 s. So this
     * method removes the messages first.
     */
    void forget(MessageQueue queue, ProcessQueue record) {
        record.clear();
        try {
            rebalance().removeUnnecessaryMessageQueue(queue, record);
        } catch (RuntimeException error) {
            log.warning(queue + ": the client cannot clean up: " + error);
        }
    }

    /** Adds the client's record of a queue; false if the client has one already. */
    boolean add(MessageQueue queue, ProcessQueue record) {
        return table().putIfAbsent(queue, record) == null;
    }

    /** Whether the current thread is in {@link #begin}. */
    boolean isBeginning() {
        return beginners.contains(Thread.currentThread());
    }

    /**
     * Begins to read queues of one broker, if the client knows them. Waits for the broker.
     *
     * <p>The client itself would begin to read them when it rebalances. But client 5 rebalances at
     * most once a second, and waits for half a second before the first pull. A broker that has
     * missed the client's heartbeat refuses pulls until the next heartbeat, after 30 s.
     */
    void begin(String broker, Collection<MessageQueue> wanted, Member member, AwakeClock clock)
            throws MQBrokerException, MQClientException, InterruptedException, RemotingException {
        learn(wanted);
        if (!isKnownAt(broker)) {
            sendHeartbeats();
            if (!isKnownAt(broker)) {
                throw new IllegalStateException("the broker does not know this consumer");
            }
        }
        for (MessageQueue each : wanted) {
            if (isKnown(each)) {
                begin(each, member, clock);
            }
        }
    }

    private void begin(MessageQueue queue, Member member, AwakeClock clock)
            throws MQClientException {
        if (client.isConsumeOrderly() && !rebalance().lock(queue)) {
            return;
        }
        rebalance().removeDirtyOffset(queue);
        long offset;
        beginners.add(Thread.currentThread());
        try {
            offset = rebalance().computePullFromWhereWithException(queue);
        } finally {
            beginners.remove(Thread.currentThread());
        }
        Record record = new Record();
        record.setLocked(true);
        if (offset < 0 || !member.beginReading(queue, record, clock.now())) {
            return;
        }
        PullRequest pull = new PullRequest();
        pull.setConsumerGroup(rebalance().getConsumerGroup());
        pull.setNextOffset(offset);
        pull.setMessageQueue(queue);
        pull.setProcessQueue(record);
        client.executePullRequestImmediately(pull);
    }

    /** Whether a broker knows this consumer. Asks a slave if the master is unreachable. */
    private boolean isKnownAt(String broker)
            throws MQBrokerException, InterruptedException, RemotingException {
        FindBrokerResult found =
                factory().findBrokerAddressInSubscribe(broker, MixAll.MASTER_ID, false);
        if (found == null) {
            throw new IllegalStateException("no address of the broker is known");
        }
        try {
            return factory().getMQClientAPIImpl().getConsumerIdListByGroup(
                    found.getBrokerAddr(), rebalance().getConsumerGroup(), TIMEOUT_MS)
                    .contains(factory().getClientId());
        } catch (MQBrokerException refusal) {
            if (refusal.getResponseCode() == RemotingSysResponseCode.SYSTEM_ERROR) {
                return false; // the broker knows no consumer of this group
            }
            throw refusal;
        }
    }

    private void sendHeartbeats() {
        try { // the return type differs between 4.9 and 5
            factory().getClass().getMethod("sendHeartbeatToAllBrokerWithLock").invoke(factory());
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("this client is not supported", error);
        }
    }

    /** Asks a name server for new queues, because the client itself asks only every 30 s. */
    private void learn(Collection<MessageQueue> wanted) {
        Set<String> topics = new HashSet<>();
        for (MessageQueue each : wanted) {
            if (!isKnown(each)) {
                topics.add(each.getTopic());
            }
        }
        topics.forEach(factory()::updateTopicRouteInfoFromNameServer);
    }

    private boolean isKnown(MessageQueue queue) {
        Set<MessageQueue> known = rebalance().getTopicSubscribeInfoTable().get(queue.getTopic());
        return known != null && known.contains(queue);
    }

    /** Makes the client rebalance soon: then it asks the allocation strategy. */
    void askStrategy() {
        factory().rebalanceImmediately();
    }

    private MQClientInstance factory() {
        return client.getmQClientFactory();
    }

    private RebalanceImpl rebalance() {
        return client.getRebalanceImpl();
    }

    private ConcurrentMap<MessageQueue, ProcessQueue> table() {
        return rebalance().getProcessQueueTable();
    }
}
