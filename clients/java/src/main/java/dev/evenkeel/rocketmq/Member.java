package dev.evenkeel.rocketmq;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.logging.Logger;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The rules of a member: what it may read, and what it reports to the coordinator.
 *
 * <p>This class does no I/O and reads no clock: callers pass the time, in seconds of an
 * {@link AwakeClock}. The rules are those of {@code follower/core.py}:
 *
 * <ul>
 *   <li>A queue is held from the answer that grants it until its messages in flight are finished
 *       and committed. Then the next request is sent at once, and reports that.
 *   <li>A new request replaces one that still waits for its answer. Only the answer to the
 *       newest request counts.
 *   <li>The time of a session counts from when the last answered request was <em>sent</em>, and is
 *       shorter by a margin. When it is over, all queues are dropped before anything else is done.
 *   <li>While a member keeps reading through an outage, its session does not end by time.
 * </ul>
 *
 * <p>The coordinator knows nothing of retry topics. Their queues are held in the same way, but
 * RocketMQ's own strategy assigns them.
 */
final class Member {
    static final double MARGIN = 0.05;
    static final double PAUSE_SECONDS = 0.5;
    static final double MOST_PAUSE_SECONDS = 5.0;
    /** Refusals that are temporary. For any other reason, a user must change something. */
    private static final Set<String> PASSING = new HashSet<>(Arrays.asList("AnotherSession",
            "SessionOver", "Stale", "UnknownRevision", "ReleaseOverdue", "NotLeading"));
    private static final double POLLS = 0.3;
    private static final double FIRST_LIMIT_SECONDS = 5.0;
    private static final double RELEASE_AGAIN_SECONDS = 0.2;
    private static final double DRAIN_SECONDS = 30.0;
    private static final String RETRY = "%RETRY%";
    private static final Logger log = Logger.getLogger("dev.evenkeel.rocketmq");

    private final ConsumerQueues queues;
    private final Map<MessageQueue, Holding> holdings = new HashMap<>();
    private Answer terms;
    private boolean isStopping;
    /** The number of commits in progress. */
    private int committing;
    private boolean hasNews;
    /** How many requests in a row were refused for a reason outside {@link #PASSING}. */
    private int denials;

    private String session;
    private int number;
    private long revision;
    private Ask newest;
    private double sentAt;
    /** When to send the next request; infinite while an answer is awaited. */
    private double askAt;
    /** The end of the session; NaN before its first answer. */
    private double until;

    Member(ConsumerQueues queues) {
        this.queues = queues;
        beginSession(0);
    }

    static boolean isRetry(MessageQueue queue) {
        return queue.getTopic().startsWith(RETRY);
    }

    private void beginSession(double now) {
        session = UUID.randomUUID().toString();
        number = 0;
        revision = 0;
        newest = null;
        until = Double.NaN;
        askAt = now;
        hasNews = true;
    }

    /**
     * Drops all queues if the session is over.
     *
     * <p>Returns when the next request is due or the session ends, whichever comes first.
     */
    synchronized double tick(double now) {
        dropIfOver(now);
        return Double.isNaN(until) || keepsReading() ? askAt : Math.min(askAt, until);
    }

    /** Returns the request that is due, or null. */
    synchronized Ask takeAsk(double now) {
        dropIfOver(now);
        if (now < askAt || (isStopping && holdings.isEmpty())) {
            return null;
        }
        // A commit of an earlier session must end first: it still changes where reading begins.
        if (number == 0 && committing > 0) {
            return null;
        }
        number++;
        sentAt = now;
        askAt = Double.POSITIVE_INFINITY;
        double poll = terms == null ? 0 : POLLS * terms.sessionSeconds;
        newest = new Ask(session, number, revision, holds(), number == 1 ? 0 : poll,
                queues.findClientId(), terms == null ? FIRST_LIMIT_SECONDS : 2 * poll);
        return newest;
    }

    synchronized void hearAnswer(Ask ask, Answer answer, double now) {
        dropIfOver(now);
        if (ask != newest) {
            return;
        }
        boolean isFirst = Double.isNaN(until);
        terms = answer;
        double end = sentAt + answer.sessionSeconds * (1 - MARGIN);
        until = isFirst ? end : Math.max(until, end);
        askAt = now;
        if (now >= until) { // too late: other members may have these queues by now
            dropIfOver(now);
            return;
        }
        denials = 0;
        revision = answer.revision;
        if (isFirst) {
            log.info("the session began");
        }
        Set<MessageQueue> before = holds();
        if (!isStopping) {
            answer.grants.forEach(this::hold);
        }
        for (Holding each : holdings.values()) {
            if (!isRetry(each.queue) && !answer.grants.contains(each.queue)) {
                leave(each, now + answer.drainSeconds);
            }
        }
        if (isFirst || !before.equals(holds())) {
            hasNews = true;
            log.info("holds " + QueueIds.show(holds()));
        }
        notifyAll();
    }

    synchronized void hearRefusal(Ask ask, String reason, double now) {
        dropIfOver(now);
        if (ask != newest) {
            return;
        }
        boolean isReplaced =
                reason.equals("AnotherSession") && !Double.isNaN(until) && now >= until;
        if (isReplaced || reason.equals("SessionOver") || reason.equals("UnknownRevision")) {
            dropAll("the coordinator has ended the session");
            beginSession(now);
        }
        denials = PASSING.contains(reason) ? 0 : denials + 1;
        askAt = now + Math.min(MOST_PAUSE_SECONDS, PAUSE_SECONDS * Math.pow(2, denials));
    }

    synchronized void hearFailure(Ask ask, double now) {
        dropIfOver(now);
        if (ask == newest) {
            askAt = now + PAUSE_SECONDS;
        }
    }

    /** Whether the client may begin to read a queue. */
    synchronized boolean mayRead(MessageQueue queue, double now) {
        dropIfOver(now);
        Holding holding = holdings.get(queue);
        return holding != null && !holding.isLeaving();
    }

    /**
     * Holds these queues of a retry topic, and no other queues of that topic.
     *
     * <p>Returns those that may be read.
     */
    synchronized List<MessageQueue> holdRetries(
            String topic, Collection<MessageQueue> wanted, double now) {
        dropIfOver(now);
        List<MessageQueue> found = new ArrayList<>();
        if (!Double.isNaN(until) && !isStopping) {
            wanted.forEach(this::hold);
        }
        for (Holding each : holdings.values()) {
            if (!each.queue.getTopic().equals(topic)) {
                continue;
            }
            if (!wanted.contains(each.queue)) {
                leave(each, now + terms.drainSeconds);
            } else if (!each.isLeaving()) {
                found.add(each.queue);
            }
        }
        return found;
    }

    synchronized Holding find(MessageQueue queue) {
        return holdings.get(queue);
    }

    /** Lets the client read a queue after {@link #noteBegin}; false if it may not. */
    synchronized boolean beginReading(MessageQueue queue, Record record, double now) {
        if (!mayRead(queue, now) || !queues.add(queue, record)) {
            return false;
        }
        holdings.get(queue).record = record;
        return true;
    }

    /** Notes where reading begins; false if the queue is no longer held. */
    synchronized boolean noteBegin(Holding holding, long offset, double now) {
        dropIfOver(now);
        holding.beginsAt = offset;
        return !holding.isOver && !holding.isLeaving();
    }

    /** Begins a call of the listener; null if it may not begin. */
    synchronized Holding begin(MessageQueue queue, MessageExt message, double now) {
        dropIfOver(now);
        Holding holding = holdings.get(queue);
        if (holding == null || !holding.mayBegin(message)) {
            if (holding == null || isRetry(queue)) {
                dropStray(queue);
            }
            return null;
        }
        holding.running++;
        return holding;
    }

    /** Ends a call of the listener that has handled these messages. */
    synchronized void end(Holding holding, List<MessageExt> handled) {
        holding.running--;
        for (MessageExt each : handled) {
            if (each.getQueueOffset() == holding.gapAt) {
                holding.gapAt = -1;
            }
            holding.done.put(each.getQueueOffset(), each);
            holding.handledTo = Math.max(holding.handledTo, each.getQueueOffset() + 1);
        }
        notifyAll();
    }

    synchronized boolean isLeaving(Holding holding, double now) {
        dropIfOver(now);
        return holding.isLeaving() && !holding.isOver;
    }

    /** Notes the offset that the client counts as done; false if the offset must be ignored. */
    synchronized boolean noteDone(MessageQueue queue, long offset) {
        Holding holding = holdings.get(queue);
        if (holding == null || holding.beginsAt < 0 || offset < holding.beginsAt) {
            return false;
        }
        holding.done.headMap(offset).clear();
        return true;
    }

    /** Whether the session lasts, by the member's own clock. */
    synchronized boolean hasSession(double now) {
        return now < until;
    }

    /** Begins a commit, until {@link #endCommit}; false if no commit is allowed. */
    synchronized boolean beginCommit(Holding holding, double now) {
        dropIfOver(now);
        boolean mayCommit = holding != null && !holding.isOver;
        committing += mayCommit ? 1 : 0;
        return mayCommit;
    }

    synchronized void endCommit() {
        committing--;
        notifyAll();
    }

    /** The holdings whose progress is committed at intervals. */
    synchronized List<Holding> listReading(double now) {
        dropIfOver(now);
        List<Holding> found = new ArrayList<>();
        for (Holding each : holdings.values()) {
            if (!each.isLeaving() && each.beginsAt >= 0) {
                found.add(each);
            }
        }
        return found;
    }

    /** Takes the queues that can be released now. */
    synchronized List<Holding> takeReleases(double now) {
        dropIfOver(now);
        List<Holding> found = new ArrayList<>();
        for (Holding each : holdings.values()) {
            if (each.isDue(now)) {
                each.isReleasing = true;
                found.add(each);
            }
        }
        return found;
    }

    synchronized List<MessageExt> listDone(Holding holding) {
        return new ArrayList<>(holding.done.values());
    }

    /** Begins to handle a message that was skipped: later messages were handled before it. */
    synchronized void beginGap(Holding holding, MessageExt message) {
        holding.running++;
        holding.gapAt = message.getQueueOffset();
        holding.isReleasing = false;
    }

    /** Ends a holding if its last offset is committed, or if its time is over. */
    synchronized void noteReleased(Holding holding, boolean isCommitted, double now) {
        holding.isReleasing = false;
        holding.releaseAt = now + RELEASE_AGAIN_SECONDS;
        if (holding.isOver || !(isCommitted || now >= holding.leaveBy)) {
            return;
        }
        holding.isOver = true;
        if (holding.restarts) {
            holdings.put(holding.queue, new Holding(holding.queue));
            hasNews = true;
            return;
        }
        holdings.remove(holding.queue);
        askAt = now;
        if (!isRetry(holding.queue)) {
            log.info("holds " + QueueIds.show(holds()));
        }
        notifyAll();
    }

    /**
     * Begins to release queues that the client has dropped by itself, so that they are read anew.
     *
     * <p>The coordinator learns nothing of this release: the member holds the queues all the time.
     * Reading continues after the last handled message. The client drops a queue that it has not
     * pulled for two minutes. It also drops a queue if reading began after the client asked the
     * strategy, and before it used the strategy's answer.
     */
    synchronized void restartDropped(double now) {
        dropIfOver(now);
        for (Holding each : holdings.values()) {
            if (!each.isLeaving() && each.record != null && !queues.has(each.queue)) {
                log.info("the client has dropped " + each.queue + "; it is read anew");
                leave(each, Double.POSITIVE_INFINITY);
                each.restarts = true;
            }
        }
    }

    /**
     * Drops queues that the client reads although the member does not hold them.
     *
     * <p>The client may have begun to read them because of an outdated decision.
     */
    synchronized void dropStrays(double now) {
        dropIfOver(now);
        for (MessageQueue each : queues.list()) {
            if (!holdings.containsKey(each)) {
                dropStray(each);
            }
        }
    }

    /** Whether a session has begun, or other queues are to be read, since the last call. */
    synchronized boolean takeNews() {
        boolean found = hasNews;
        hasNews = false;
        return found;
    }

    /** The queues that the client may read, but does not read yet. */
    synchronized List<MessageQueue> listLacking() {
        List<MessageQueue> found = new ArrayList<>();
        for (Holding each : holdings.values()) {
            if (!each.isLeaving() && each.record == null && !queues.has(each.queue)) {
                found.add(each.queue);
            }
        }
        return found;
    }

    /** Takes no new queues from now on, and begins to release all that are held. */
    synchronized void stop(double now) {
        dropIfOver(now);
        isStopping = true;
        double drain = terms == null ? DRAIN_SECONDS : terms.drainSeconds;
        holdings.values().forEach(each -> leave(each, now + drain));
        notifyAll();
    }

    synchronized boolean isEmpty() {
        return holdings.isEmpty();
    }

    /** The id of the session if the coordinator has answered it, otherwise null. */
    synchronized String findSession() {
        return Double.isNaN(until) ? null : session;
    }

    private void hold(MessageQueue queue) {
        if (!holdings.containsKey(queue)) {
            dropStray(queue);
            holdings.put(queue, new Holding(queue));
        }
    }

    private void leave(Holding holding, double leaveBy) {
        if (!holding.isLeaving()) {
            ProcessQueue dropped = queues.drop(holding.queue);
            holding.left = dropped == null ? holding.record : dropped;
            holding.leaveBy = leaveBy;
        } else if (holding.restarts) {
            holding.leaveBy = leaveBy;
        }
        holding.restarts = false;
    }

    private Set<MessageQueue> holds() {
        Set<MessageQueue> found = new HashSet<>(holdings.keySet());
        found.removeIf(Member::isRetry);
        return found;
    }

    private boolean keepsReading() {
        return terms != null && terms.keepsReading;
    }

    private boolean mayAct(double now) {
        return Double.isNaN(until) || now < until || keepsReading();
    }

    private void dropIfOver(double now) {
        if (!mayAct(now)) {
            dropAll("the session is over: no request was answered in time");
            beginSession(now);
        }
    }

    private void dropAll(String reason) {
        if (!holdings.isEmpty()) {
            log.warning(reason + "; given up: " + QueueIds.show(holds()));
        }
        for (Holding each : holdings.values()) {
            each.isOver = true;
            queues.forgetLater(each.queue, each.left);
        }
        holdings.clear();
        queues.list().forEach(this::dropStray);
        notifyAll();
    }

    private void dropStray(MessageQueue queue) {
        queues.forgetLater(queue, queues.drop(queue));
    }
}
