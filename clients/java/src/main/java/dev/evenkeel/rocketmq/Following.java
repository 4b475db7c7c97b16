package dev.evenkeel.rocketmq;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.logging.Logger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.MessageListener;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * Lets one consumer read its granted queues, from its start until it is shut down.
 *
 * <p>One thread keeps the time and never waits for the network while the consumer runs. A second
 * thread does the work that waits for brokers: it commits offsets, releases queues and cleans up.
 * Each request to the coordinator has its own thread, because a newer request may be sent while
 * an older one waits for its answer.
 */
final class Following {
    private static final double SHORTEST_SLEEP_SECONDS = 0.005;
    private static final double LONGEST_SLEEP_SECONDS = 0.1;
    private static final double COMMIT_SECONDS = 0.2;
    private static final double MOST_COMMITS = 100;
    private static final double LEAST_PAUSE_SECONDS = 0.1;
    private static final double MOST_PAUSE_SECONDS = 2.0;
    private static final List<String> UNSAID = Arrays.asList("Stale", "SessionOver", "NotLeading");
    private static final String NO_ANSWER = "no answer";
    private static final String REFUSED = "refused";
    private static final Logger log = Logger.getLogger("dev.evenkeel.rocketmq");

    private final AwakeClock clock = new AwakeClock();
    private final Troubles troubles = new Troubles(clock);
    private final DefaultMQPushConsumer consumer;
    private final Coordinator coordinator;
    private final ConsumerQueues queues;
    private final Member member;
    private final FollowedOffsets offsets;
    /** Null if messages are handled in order. */
    private final ConcurrentListener concurrent;
    private final String name;
    private final ExecutorService tasks;
    /** Queues that a task is beginning to read. */
    private final Set<MessageQueue> beginning = ConcurrentHashMap.newKeySet();
    private volatile boolean isOver;

    /** Prepares a consumer that is not started yet. */
    Following(DefaultMQPushConsumer consumer, Coordinator coordinator, String name) {
        this.consumer = consumer;
        this.coordinator = coordinator;
        this.name = name;
        queues = new ConsumerQueues(consumer);
        member = new Member(queues);
        offsets = new FollowedOffsets(consumer, queues, member, clock, troubles, this);
        MessageListener listener = consumer.getMessageListener();
        if (listener instanceof MessageListenerOrderly) {
            concurrent = null;
            consumer.registerMessageListener(
                    new OrderlyListener((MessageListenerOrderly) listener, member, clock));
        } else {
            concurrent = new ConcurrentListener(
                    (MessageListenerConcurrently) listener, consumer, member, clock);
            consumer.registerMessageListener(concurrent);
        }
        consumer.setAllocateMessageQueueStrategy(new GrantedQueues(member, clock));
        consumer.setOffsetStore(offsets);
        tasks = Executors.newCachedThreadPool(threads("task"));
    }

    void begin() {
        threads("time").newThread(this::keepTime).start();
        threads("brokers").newThread(this::serve).start();
        tasks.execute(queues::awaitStart);
    }

    /** Releases all queues after their running calls, and ends the session. */
    void leave() {
        member.stop(clock.now());
        while (!member.isEmpty() && !isOver) {
            sleep(clock.now() + LONGEST_SLEEP_SECONDS);
        }
        if (isOver) {
            return;
        }
        isOver = true;
        String session = member.findSession();
        if (session == null) {
            return;
        }
        try {
            coordinator.leave(session);
            log.info(name + " has ended its session");
        } catch (IOException | RefusedException error) {
            log.warning("could not end the session of " + name + " at the coordinator: " + error);
        }
    }

    private void keepTime() {
        while (!isOver) {
            double now = clock.now();
            double next = member.tick(now);
            if (queues.isOver()) {
                leave();
                return;
            }
            Ask ask = queues.isRunning() ? member.takeAsk(now) : null;
            if (ask != null) {
                tasks.execute(() -> send(ask));
                continue;
            }
            double soon = Math.max(next, now + SHORTEST_SLEEP_SECONDS);
            sleep(Math.min(soon, now + LONGEST_SLEEP_SECONDS));
        }
    }

    private void send(Ask ask) {
        try {
            Answer answer = coordinator.ask(ask);
            if (!answer.group.equals(consumer.getConsumerGroup())) {
                throw new IOException("the consumer's group is " + consumer.getConsumerGroup()
                        + ", but RocketMQ's group of this ConsumerGroup is " + answer.group);
            }
            troubles.clear(NO_ANSWER);
            troubles.clear(REFUSED);
            member.hearAnswer(ask, answer, clock.now());
        } catch (RefusedException error) {
            if (!UNSAID.contains(error.reason)) {
                troubles.say(REFUSED, "the coordinator refuses " + name + ", trying again: "
                        + error.getMessage());
            }
            member.hearRefusal(ask, error.reason, clock.now());
        } catch (IOException | RuntimeException error) {
            troubles.say(NO_ANSWER,
                    name + " gets no answer from the coordinator, trying again: " + error);
            member.hearFailure(ask, clock.now());
        }
    }

    private void serve() {
        double commitAt = 0;
        double beginAt = 0;
        double pause = LEAST_PAUSE_SECONDS;
        while (!isOver) {
            double now = clock.now();
            try {
                member.dropStrays(now);
                queues.forgetDropped();
                member.restartDropped(now);
                release(member.takeReleases(now));
                if (now >= commitAt) {
                    int count = member.listReading(now).size();
                    commitAt = now + Math.max(COMMIT_SECONDS, count / MOST_COMMITS);
                    offsets.commitProgress();
                }
                boolean hasNews = queues.isRunning() && member.takeNews();
                if (hasNews) {
                    pause = LEAST_PAUSE_SECONDS;
                }
                List<MessageQueue> lacking = member.listLacking();
                if (hasNews || (!lacking.isEmpty() && now >= beginAt)) {
                    begin(lacking);
                    beginAt = now + pause;
                    pause = Math.min(2 * pause, MOST_PAUSE_SECONDS);
                }
            } catch (RuntimeException error) {
                troubles.say(error.getClass(), "trying again: " + error);
            }
            sleep(clock.now() + LONGEST_SLEEP_SECONDS / 2);
        }
    }

    /** Begins to read queues: one after another at each broker, all brokers in parallel. */
    private void begin(List<MessageQueue> lacking) {
        Map<String, List<MessageQueue>> byBroker = new HashMap<>();
        for (MessageQueue each : lacking) {
            if (!Member.isRetry(each) && beginning.add(each)) {
                byBroker.computeIfAbsent(each.getBrokerName(), name -> new ArrayList<>()).add(each);
            }
        }
        byBroker.forEach((broker, wanted) -> tasks.execute(() -> {
            try {
                queues.begin(broker, wanted, member, clock);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            } catch (MQBrokerException | MQClientException | RemotingException
                    | RuntimeException error) {
                troubles.say(broker, broker + ": its queues cannot be read, trying again: " + error);
            } finally {
                wanted.forEach(beginning::remove);
            }
        }));
        queues.askStrategy(); // the client itself begins the queues of retry topics
    }

    /** Commits the last offsets of these queues, then releases all queues at the same moment. */
    private void release(List<Holding> leaving) {
        Map<Holding, Boolean> areCommitted = new LinkedHashMap<>();
        for (Holding each : leaving) {
            try {
                long end = findEnd(each);
                if (fillsGap(each, end)) {
                    continue;
                }
                areCommitted.put(each, offsets.commitLast(each, end));
            } catch (RuntimeException error) {
                troubles.say(error.getClass(), "trying again: " + error);
                areCommitted.put(each, false);
            }
            if (each.left != null && (areCommitted.get(each) || clock.now() >= each.leaveBy)) {
                queues.forget(each.queue, each.left);
            }
        }
        synchronized (member) { // so that one request reports all releases
            areCommitted.forEach((each, isCommitted) ->
                    member.noteReleased(each, isCommitted, clock.now()));
        }
    }

    /**
     * Finds the first offset that was not handled; -1 if nothing was read.
     *
     * <p>The client's record still has the messages that the client has not counted as done: they
     * wait for a call, or failed, or were handled after the queue was dropped. The handled messages
     * are removed here. The first message that remains is then the one to read next.
     */
    private long findEnd(Holding holding) {
        ProcessQueue record = holding.left;
        if (record != null && concurrent != null) {
            long first = record.removeMessage(member.listDone(holding));
            if (first >= 0) {
                return holding.gapAt < 0 ? first : Math.min(first, holding.gapAt);
            }
        }
        long end = Math.max(holding.handledTo, offsets.findProgress(holding));
        return holding.gapAt < 0 ? end : holding.gapAt;
    }

    /**
     * Handles the first message that was skipped, if there is one.
     *
     * <p>Threads of the client begin their calls in no strict order. So when the queue was dropped,
     * calls of later messages may have begun before the call of an earlier message. Unless the
     * earlier message is handled now, the later messages are delivered again.
     */
    private boolean fillsGap(Holding holding, long end) {
        if (concurrent == null || holding.left == null || holding.gapAt >= 0 || end < 0
                || end >= holding.handledTo || clock.now() >= holding.leaveBy) {
            return false;
        }
        List<MessageExt> gap = holding.left.takeMessages(1);
        if (gap.isEmpty()) {
            return false;
        }
        member.beginGap(holding, gap.get(0));
        tasks.execute(() -> concurrent.fillGap(holding, gap));
        return true;
    }

    /** Waits until this time, or until the state of the member changes. */
    private void sleep(double until) {
        synchronized (member) {
            double seconds = until - clock.now();
            if (seconds <= 0) {
                return;
            }
            try {
                member.wait((long) Math.ceil(1000 * seconds));
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private ThreadFactory threads(String task) {
        return work -> {
            Thread thread = new Thread(work, "evenkeel-" + task + "-" + name);
            thread.setDaemon(true);
            return thread;
        };
    }
}
