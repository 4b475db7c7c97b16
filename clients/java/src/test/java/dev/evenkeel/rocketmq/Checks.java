package dev.evenkeel.rocketmq;

import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Checks that need no broker and get the time as a number. Ends with an error if one fails. */
public final class Checks {
    private static final MessageQueue FIRST = new MessageQueue("orders", "broker-a", 0);
    private static final MessageQueue SECOND = new MessageQueue("orders", "broker-a", 1);

    private Checks() {}

    public static void main(String[] args) {
        jsonIsRead();
        queuesAreWrittenAsRanges();
        theClockRunsWhileTheMachineSleeps();
        aSessionCountsFromTheRequestThatWasAnswered();
        nothingIsHeldAfterTheSession();
        aSessionBeginsWhenNoCommitIsUnderWay();
        aMemberMayKeepReading();
        aQueueIsReleasedWhenNothingIsInFlight();
        aQueueIsReleasedWhenItsTimeIsOver();
        aQueueThatTheClientDropsIsReadAnew();
        aMessageOfAnEarlierHoldingIsRefused();
        onlyTheNewestAnswerCounts();
        retriesAreHeldOnlyInASession();
        pausesGrowWhileAMemberIsDenied();
        System.out.println("all checks passed");
    }

    private static void jsonIsRead() {
        Object read = Json.read(
                " {\"a\": [1, 2.5e1, null, true], \"b\": {\"c\": \"\\u00e4\\n\\\"\"}} ");
        Map<?, ?> found = (Map<?, ?>) read;
        check(found.get("a").equals(Arrays.asList(1.0, 25.0, null, true)), found);
        check(((Map<?, ?>) found.get("b")).get("c").equals("ä\n\""), found);
        check(Json.read(Json.quote("a\"\\\n")).equals("a\"\\\n"), "quoted");
        for (String wrong : Arrays.asList("", "{", "[1", "{\"a\" 1}", "1 2", "\"\\u12", "nul",
                String.join("", Collections.nCopies(100_000, "[")))) {
            try {
                check(false, Json.read(wrong));
            } catch (IllegalArgumentException expected) {
                check(true, expected);
            }
        }
    }

    private static void queuesAreWrittenAsRanges() {
        List<?> written = (List<?>) Json.read(
                "[{\"topic\": \"orders\", \"broker\": \"broker-a\", \"ids\": \"0-2,5,9-10\"}]");
        Set<MessageQueue> queues = QueueIds.read(written);
        check(queues.size() == 6, queues);
        check(Json.read(QueueIds.write(queues)).equals(written), QueueIds.write(queues));
        check(QueueIds.show(queues).equals("orders@broker-a 0-2,5,9-10"), QueueIds.show(queues));
    }

    private static void theClockRunsWhileTheMachineSleeps() {
        long[] nanos = {5_000_000_000L};
        long[] day = {1_000_000L};
        AwakeClock clock = new AwakeClock(() -> nanos[0], () -> day[0]);
        nanos[0] += 2_000_000_000L;
        day[0] += 2_000;
        check(near(clock.now(), 2), clock.now());
        day[0] += 30_000; // the machine slept, or somebody has set the clock
        check(near(clock.now(), 32), clock.now());
        day[0] -= 10_000; // somebody has set the clock back
        check(near(clock.now(), 32), clock.now());
        nanos[0] += 1_000_000_000L;
        day[0] += 1_000;
        check(near(clock.now(), 33), clock.now());
        for (int each = 0; each < 1_000; each++) { // the clocks have different steps
            nanos[0] += 100_000L;
            day[0] += each % 10 == 0 ? 1 : 0;
            clock.now();
        }
        check(near(clock.now(), 33.1), clock.now());
    }

    private static void aSessionCountsFromTheRequestThatWasAnswered() {
        Member member = makeMember();
        Ask ask = member.takeAsk(100);
        member.hearAnswer(ask, grant(1, false, FIRST), 104);
        check(member.mayRead(FIRST, 109.4), "10 s from 100, less 5 %");
        check(!member.mayRead(FIRST, 109.5), "over");
    }

    private static void nothingIsHeldAfterTheSession() {
        Member member = makeMember();
        member.hearAnswer(member.takeAsk(0), grant(1, false, FIRST), 0);
        Holding holding = member.find(FIRST);
        Record record = begin(member, 7);
        check(member.begin(FIRST, pull(record, 7), 1) == holding, "held");
        check(member.begin(FIRST, pull(record, 8), 9.5) == null, "over");
        check(!member.beginCommit(holding, 9.5), "over");
        check(!member.noteDone(FIRST, 8), "over");
        Ask next = member.takeAsk(9.5);
        check(next.number == 1 && next.holds.isEmpty(), next.write());
    }

    private static void aSessionBeginsWhenNoCommitIsUnderWay() {
        Member member = makeMember();
        member.hearAnswer(member.takeAsk(0), grant(1, false, FIRST), 0);
        check(member.beginCommit(member.find(FIRST), 1), "held");
        check(member.takeAsk(1) != null, "the session goes on");
        check(member.takeAsk(9.5) == null, "the process was frozen in a commit");
        member.endCommit();
        check(member.takeAsk(9.5).number == 1, "the commit is over");
    }

    private static void aMemberMayKeepReading() {
        Member member = makeMember();
        member.hearAnswer(member.takeAsk(0), grant(1, true, FIRST), 0);
        check(member.mayRead(FIRST, 1000), "without a coordinator");
        Ask ask = member.takeAsk(1000);
        check(ask.holds.contains(FIRST), ask.write());
        member.hearAnswer(ask, grant(2, true, FIRST, SECOND), 1009.5);
        check(member.mayRead(FIRST, 1009.5), "what it has");
        check(!member.mayRead(SECOND, 1009.5), "the answer came too late");
        ask = member.takeAsk(1009.5);
        member.hearRefusal(ask, "SessionOver", 1010);
        check(!member.mayRead(FIRST, 1010), "the coordinator is back");
    }

    private static void aQueueIsReleasedWhenNothingIsInFlight() {
        Member member = makeMember();
        member.hearAnswer(member.takeAsk(0), grant(1, false, FIRST, SECOND), 0);
        Holding holding = member.find(FIRST);
        member.begin(FIRST, pull(begin(member, 0), 0), 0);
        member.hearAnswer(member.takeAsk(1), grant(2, false, SECOND), 1);
        check(!member.mayRead(FIRST, 1), "the queue must be released");
        check(member.takeReleases(2).isEmpty(), "a call is running");
        check(member.takeAsk(2).holds.contains(FIRST), "still in flight");
        member.end(holding, Collections.emptyList());
        check(member.takeReleases(2).equals(Collections.singletonList(holding)), "no call runs");
        member.noteReleased(holding, false, 2);
        check(member.takeReleases(2.1).isEmpty(), "too soon");
        check(member.takeReleases(2.3).size() == 1, "its commit is tried again");
        member.noteReleased(holding, true, 2.3);
        Ask ask = member.takeAsk(2.3);
        check(ask.holds.equals(Collections.singleton(SECOND)), ask.write());
    }

    private static void aQueueIsReleasedWhenItsTimeIsOver() {
        Member member = makeMember();
        member.hearAnswer(member.takeAsk(0), grant(1, true, FIRST), 0);
        Holding holding = member.find(FIRST);
        member.begin(FIRST, pull(begin(member, 0), 0), 0);
        member.hearAnswer(member.takeAsk(1), grant(2, true), 1);
        check(member.takeReleases(30.9).isEmpty(), "a call is running");
        check(member.takeReleases(31).size() == 1, "its 30 s are over");
        member.noteReleased(holding, false, 31);
        check(member.takeAsk(31).holds.isEmpty(), "released");
        member.end(holding, Collections.singletonList(new MessageExt()));
        check(!member.beginCommit(holding, 31), "its result does not count");
    }

    private static void aQueueThatTheClientDropsIsReadAnew() {
        ConsumerQueues queues = makeQueues();
        Member member = new Member(queues);
        member.hearAnswer(member.takeAsk(0), grant(1, false, FIRST), 0);
        Holding holding = member.find(FIRST);
        Record record = begin(member, 0);
        MessageExt late = pull(record, 1);
        member.begin(FIRST, pull(record, 0), 0);
        member.restartDropped(1);
        check(!holding.isLeaving(), "the client reads it");
        queues.drop(FIRST);
        check(member.listLacking().isEmpty(), "its calls must end first");
        member.restartDropped(1);
        check(member.begin(FIRST, late, 1) == null, "no call begins");
        check(member.takeReleases(2).isEmpty(), "a call is running");
        member.end(holding, Collections.emptyList());
        check(member.takeReleases(2).size() == 1, "the call is over");
        member.noteReleased(holding, true, 2);
        check(member.listLacking().equals(Collections.singletonList(FIRST)), "to be begun");
        check(member.takeAsk(2).holds.contains(FIRST), "it was held all the time");
        check(member.begin(FIRST, late, 2) == null, "not begun");
        record = begin(member, 1);
        check(member.begin(FIRST, late, 2) == null, "the message is delivered again");
        check(member.begin(FIRST, pull(record, 1), 2) != null, "this time");
        check(queues.has(FIRST), "nothing stray");
    }

    private static void aMessageOfAnEarlierHoldingIsRefused() {
        Member member = makeMember();
        member.hearAnswer(member.takeAsk(0), grant(1, false, FIRST), 0);
        Record record = begin(member, 100);
        check(member.begin(FIRST, pull(record, 99), 1) == null, "of an earlier holding");
        check(member.begin(FIRST, pull(record, 100), 1) != null, "of this holding");
        check(!member.noteDone(FIRST, 99), "an old offset");
        check(member.noteDone(FIRST, 101), "a new offset");
    }

    private static void onlyTheNewestAnswerCounts() {
        Member member = makeMember();
        Ask old = member.takeAsk(0);
        member.hearFailure(old, 1);
        Ask ask = member.takeAsk(2);
        member.hearAnswer(old, grant(1, false, FIRST), 3);
        check(!member.mayRead(FIRST, 3), "a newer request was sent");
        member.hearAnswer(ask, grant(1, false, FIRST), 3);
        check(member.mayRead(FIRST, 3), "the newest");
    }

    private static void retriesAreHeldOnlyInASession() {
        Member member = makeMember();
        MessageQueue retry = new MessageQueue("%RETRY%billing", "broker-a", 0);
        List<MessageQueue> wanted = Collections.singletonList(retry);
        check(member.holdRetries(retry.getTopic(), wanted, 0).isEmpty(), "no session");
        member.hearAnswer(member.takeAsk(0), grant(1, false, FIRST), 0);
        check(member.holdRetries(retry.getTopic(), wanted, 1).equals(wanted), "a session");
        check(member.takeAsk(1).holds.equals(Collections.singleton(FIRST)), "not reported");
        check(member.holdRetries(retry.getTopic(), wanted, 9.5).isEmpty(), "over");
    }

    private static void pausesGrowWhileAMemberIsDenied() {
        Member member = makeMember();
        double now = 0;
        for (double pause : new double[] {1, 2, 4, 5, 5}) {
            member.hearRefusal(member.takeAsk(now), "NotSelected", now);
            check(member.takeAsk(now + pause - 0.01) == null, pause);
            now += pause;
        }
        member.hearRefusal(member.takeAsk(now), "NotLeading", now);
        check(member.takeAsk(now + 0.5) != null, "a temporary refusal");
    }

    private static Member makeMember() {
        return new Member(makeQueues());
    }

    /** Begins to read the first queue. */
    private static Record begin(Member member, long offset) {
        check(member.noteBegin(member.find(FIRST), offset, 0), "held");
        Record record = new Record();
        check(member.beginReading(FIRST, record, 0), "held");
        return record;
    }

    private static MessageExt pull(Record record, long offset) {
        MessageExt message = new MessageExt();
        message.setQueueOffset(offset);
        message.setBody(new byte[0]);
        record.putMessage(Collections.singletonList(message));
        return message;
    }

    private static ConsumerQueues makeQueues() {
        return new ConsumerQueues(new DefaultMQPushConsumer("billing"));
    }

    private static Answer grant(long revision, boolean keepsReading, MessageQueue... queues) {
        return new Answer(revision, new HashSet<>(Arrays.asList(queues)), 10, 30, keepsReading,
                "billing");
    }

    private static boolean near(double found, double wanted) {
        return Math.abs(found - wanted) < 0.011;
    }

    private static void check(boolean isTrue, Object seen) {
        if (!isTrue) {
            throw new AssertionError(seen);
        }
    }
}
