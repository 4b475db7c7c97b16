package dev.evenkeel.rocketmq;

import java.util.Collections;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.consumer.store.RemoteBrokerOffsetStore;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * Commits offsets of held queues only, and checks the clock before each commit.
 *
 * <p>A commit waits for the broker's answer before the next one is sent, so no commit overtakes
 * another. A commit can still arrive late, if the process is frozen or cut off just after it has
 * checked the clock. Then the broker's offset goes back, although another member holds the queue.
 * So each holder commits again: at intervals, as RocketMQ's own client does, and when it releases
 * the queue. The process with the late commit begins no new session until that commit is answered.
 */
final class FollowedOffsets implements OffsetStore {
    /** The default interval of RocketMQ's own client. */
    private static final double REPEAT_SECONDS = 5.0;
    private static final long UNREADABLE = -2;

    private final DefaultMQPushConsumer consumer;
    private final DefaultMQPushConsumerImpl client;
    private final ConsumerQueues queues;
    private final Member member;
    private final AwakeClock clock;
    private final Troubles troubles;
    private final Following following;
    private final Map<MessageQueue, Commit> committed = new ConcurrentHashMap<>();
    /** Brokers that did not answer the last commit. */
    private final Set<String> silent = ConcurrentHashMap.newKeySet();
    private volatile RemoteBrokerOffsetStore brokers;

    FollowedOffsets(DefaultMQPushConsumer consumer, ConsumerQueues queues, Member member,
            AwakeClock clock, Troubles troubles, Following following) {
        this.consumer = consumer;
        this.queues = queues;
        this.client = consumer.getDefaultMQPushConsumerImpl();
        this.member = member;
        this.clock = clock;
        this.troubles = troubles;
        this.following = following;
    }

    /** The client calls this when it starts, before it reads anything. */
    @Override
    public void load() throws MQClientException {
        brokers = new RemoteBrokerOffsetStore(
                client.getmQClientFactory(), consumer.getConsumerGroup());
        brokers.load();
        following.begin();
    }

    @Override
    public void updateOffset(MessageQueue queue, long offset, boolean increaseOnly) {
        if (member.noteDone(queue, offset) || !increaseOnly) {
            brokers.updateOffset(queue, offset, increaseOnly);
        }
    }

    /** Client 5 calls this when the broker has no messages at the pulled offset. */
    @Override
    public void updateAndFreezeOffset(MessageQueue queue, long offset) {
        brokers.updateAndFreezeOffset(queue, offset);
    }

    /**
     * Returns the offset from which to read a held queue.
     *
     * <p>The client asks for the offset in memory only to send it with a pull. The broker would
     * commit that offset without a check of the clock. So this method says that there is none.
     */
    @Override
    public long readOffset(MessageQueue queue, ReadOffsetType type) {
        if (type == ReadOffsetType.READ_FROM_MEMORY) {
            return -1;
        }
        if (type != ReadOffsetType.READ_FROM_STORE) {
            return brokers.readOffset(queue, type);
        }
        Holding holding = member.find(queue);
        boolean isOurs = Member.isRetry(queue) || queues.isBeginning()
                || (client.isConsumeOrderly() && queues.has(queue));
        if (holding == null || !isOurs) {
            return UNREADABLE; // the client must not begin to read: see ConsumerQueues.begin
        }
        double now = clock.now();
        long offset = brokers.readOffset(queue, type);
        if (offset <= UNREADABLE || !member.noteBegin(holding, Math.max(0, offset), clock.now())) {
            return UNREADABLE;
        }
        committed.put(queue, new Commit(offset, now));
        return offset;
    }

    /** The client calls this at intervals, and also at its shutdown, while it holds its lock. */
    @Override
    public void persistAll(Set<MessageQueue> queues) {
        if (Thread.holdsLock(client)) {
            following.leave();
        }
    }

    @Override
    public void persist(MessageQueue queue) {
        Holding holding = member.find(queue);
        if (holding != null && !holding.isLeaving()) {
            commitProgress(holding);
        }
    }

    @Override
    public void removeOffset(MessageQueue queue) {
        brokers.removeOffset(queue);
    }

    @Override
    public Map<MessageQueue, Long> cloneOffsetTable(String topic) {
        return brokers.cloneOffsetTable(topic);
    }

    @Override
    public void updateConsumeOffsetToBroker(MessageQueue queue, long offset, boolean isOneway)
            throws RemotingException, MQBrokerException, InterruptedException, MQClientException {
        if (member.beginCommit(member.find(queue), clock.now())) {
            try {
                brokers.updateConsumeOffsetToBroker(queue, offset, isOneway);
            } finally {
                member.endCommit();
            }
        }
    }

    /**
     * Commits the handled offsets of all queues.
     *
     * <p>After a failed commit, the other queues of the same broker wait for the next call.
     */
    void commitProgress() {
        Set<String> failed = new HashSet<>();
        for (Holding each : member.listReading(clock.now())) {
            String broker = each.queue.getBrokerName();
            if (!failed.contains(broker) && !commitProgress(each)) {
                failed.add(broker);
            }
        }
    }

    private boolean commitProgress(Holding holding) {
        return commit(holding, findProgress(holding), REPEAT_SECONDS);
    }

    /** The offset that the client counts as done, otherwise where reading began; -1 if unknown. */
    long findProgress(Holding holding) {
        long done = brokers.readOffset(holding.queue, ReadOffsetType.READ_FROM_MEMORY);
        Commit begun = committed.get(holding.queue);
        return done >= 0 || begun == null || holding.beginsAt < 0 ? done : begun.offset;
    }

    /**
     * Commits the last offset of a queue before its release; false if it must be tried again.
     *
     * <p>For an offset that is stored already, one attempt is enough. If the broker did not answer
     * the last commit, such an offset is not sent, so that this broker does not delay other queues.
     */
    boolean commitLast(Holding holding, long offset) {
        boolean isSilent = silent.contains(holding.queue.getBrokerName());
        boolean isStored = isStored(holding.queue, offset);
        return commit(holding, offset, isSilent ? Double.POSITIVE_INFINITY : 0) || isStored;
    }

    private boolean isStored(MessageQueue queue, long offset) {
        Commit before = committed.get(queue);
        return before != null && before.offset == offset;
    }

    /**
     * Commits an offset; false if that failed.
     *
     * <p>An offset that is stored already is committed again only after {@code repeatSeconds}.
     */
    private synchronized boolean commit(Holding holding, long offset, double repeatSeconds) {
        double now = clock.now();
        // A member that keeps reading without a session may not be the only holder of the queue.
        boolean isDue = !isStored(holding.queue, offset)
                || now >= committed.get(holding.queue).at + repeatSeconds && member.hasSession(now);
        if (offset < 0 || !isDue) {
            return true;
        }
        if (!member.beginCommit(holding, now)) {
            return false;
        }
        String broker = holding.queue.getBrokerName();
        try {
            brokers.updateConsumeOffsetToBroker(holding.queue, offset, false);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return false;
        } catch (RemotingException | MQBrokerException | MQClientException error) {
            silent.add(broker);
            troubles.say(holding.queue, QueueIds.show(Collections.singleton(holding.queue))
                    + ": offset " + offset + " cannot be committed, trying again: " + error);
            return false;
        } finally {
            member.endCommit();
        }
        silent.remove(broker);
        troubles.clear(holding.queue);
        committed.put(holding.queue, new Commit(offset, now));
        return true;
    }

    private static final class Commit {
        final long offset;
        final double at;

        Commit(long offset, double at) {
            this.offset = offset;
            this.at = at;
        }
    }
}
