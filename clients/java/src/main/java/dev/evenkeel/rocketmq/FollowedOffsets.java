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
 * Commits only what is held, and looks at the clock before it does.
 *
 * <p>Each commit waits for the broker's answer, one after the other, so none overtakes another. One
 * can still come late: the process may be frozen, or cut off, just after the look at the clock.
 * Then the broker's offset goes back, though another member holds the queue. So each holder commits
 * again: from time to time, as RocketMQ's own client does, and when it lets go of the queue. The
 * process itself begins no new session until its late commit is answered.
 */
final class FollowedOffsets implements OffsetStore {
    /** As often as RocketMQ's client does by default. */
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

    /** The client calls it when it starts, before it reads anything. */
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

    /** The client of 5 calls it when the broker has other messages than the offset says. */
    @Override
    public void updateAndFreezeOffset(MessageQueue queue, long offset) {
        brokers.updateAndFreezeOffset(queue, offset);
    }

    /**
     * Says from where to read a queue that is held.
     *
     * <p>The client asks for what is in memory only to send it with a pull. The broker would commit
     * it, and nobody could look at the clock then. So the answer is that there is nothing.
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
            return UNREADABLE; // the client must not begin it: see ConsumerQueues.begin
        }
        double now = clock.now();
        long offset = brokers.readOffset(queue, type);
        if (offset <= UNREADABLE || !member.noteBegin(holding, Math.max(0, offset), clock.now())) {
            return UNREADABLE;
        }
        committed.put(queue, new Commit(offset, now));
        return offset;
    }

    /** The client calls it from time to time, and when it is shut down: then it holds its lock. */
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

    /** Commits what was handled. A broker that fails is left alone until the next time. */
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

    /** What the client counts as done, or where reading began; -1 if neither is known. */
    long findProgress(Holding holding) {
        long done = brokers.readOffset(holding.queue, ReadOffsetType.READ_FROM_MEMORY);
        Commit begun = committed.get(holding.queue);
        return done >= 0 || begun == null || holding.beginsAt < 0 ? done : begun.offset;
    }

    /**
     * Commits the last offset of a queue that is released; false if it must be tried again.
     *
     * <p>One attempt is enough for an offset that is stored already, and none if the broker was
     * silent just now, so that no such broker holds up other queues.
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

    /** Commits an offset; one that is stored only after so many seconds. False if that failed. */
    private synchronized boolean commit(Holding holding, long offset, double repeatSeconds) {
        double now = clock.now();
        // Whoever keeps reading without a session may not be the only one who holds the queue.
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
