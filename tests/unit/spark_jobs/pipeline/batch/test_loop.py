"""What the loop of batches writes down, runs again, and gives up."""

import itertools
import operator
import random
import threading
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from contract import exit_codes
from mq_client import filters
from mq_client.errors import NoBrokerError, UsageError
from mq_client.values import MessageQueue
from spark_jobs import journal
from spark_jobs.journal import Entry
from spark_jobs.pipeline.batch.lanes import LaneDealer
from spark_jobs.pipeline.batch.loop import MOST_CANCELS, BatchLoop
from spark_jobs.pipeline.batch.threads import EndedBatch
from spark_jobs.pipeline.batch.watching import Trouble
from spark_jobs.pipeline.checkpoint import plans
from spark_jobs.pipeline.checkpoint.journal import (
    CheckpointState,
    JobJournal,
    JournalTakenError,
    PlannedBatch,
)
from spark_jobs.pipeline.checkpoint.plans import BatchPlan
from spark_jobs.pipeline.checkpoint.stores import LocalStore
from spark_jobs.pipeline.failures import UsersPartError
from spark_jobs.planning import Range
from tests.flows import DiedError, FakeJournal
from tests.pinned_jobs import A, B, C, make_state


class FakePlanner:
    """Plans batches to these ends, one after the other; `None` is an epoch without messages."""

    def __init__(self, ends: Iterable[int | Exception | None]) -> None:
        self.left = list(ends)

    def plan(self, state: CheckpointState, idle: Set[int]) -> tuple[CheckpointState, int]:
        if not self.left:
            return state, state.epoch
        found = self.left.pop(0)
        if isinstance(found, Exception):
            raise found
        here = journal.read_offsets(state.offsets)
        end = Entry(here if found is None else {A: found}, filters.EVERYTHING)
        return plans.plan(state, end, state.epoch + 1, state.skip), state.epoch + 1


class FakeSink:
    """Replaces what a batch wrote before, as files do."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.rows: dict[int, list[Range]] = {}
        self.runs: list[int] = []
        self.committed: list[int] = []

    def run(self, plan: BatchPlan) -> None:
        self.runs.append(plan.planned.number)
        self.rows[plan.planned.number] = plan.ranges
        if self.failures:
            raise self.failures.pop(0)

    def note_commit(self, plan: BatchPlan) -> None:
        self.committed.append(plan.planned.number)

    def note_failure(self) -> None:
        pass

    def find_pulled(self, lane: int) -> Set[str]:
        return {"broker-a", "broker-b"}


class Hurried(threading.Event):
    """Does not wait, and is set after so many waits."""

    def __init__(self, waits: int = 1000) -> None:
        super().__init__()
        self.waits = waits

    def wait(self, timeout: float | None = None) -> bool:
        self.waits -= 1
        if self.waits <= 0:
            self.set()
        return self.is_set()


class FakeThreads:
    """Runs the batches of all lanes in virtual time, and ends them in a random order."""

    def __init__(self, sink: FakeSink, stop: Hurried, seed: int = 0) -> None:
        self.sink = sink
        self.stop = stop
        self.random = random.Random(seed)
        self.running: dict[int, BatchPlan] = {}
        self.cancelled: set[int] = set()
        self.endless: set[MessageQueue] = set()
        """Batches of these queues end only if they are cancelled."""
        self.now = 1000.0

    def start(self, lane: int, plan: BatchPlan) -> None:
        assert lane not in self.running
        self.running[lane] = plan

    def get_group(self, lane: int) -> str:
        return f"group-{lane}"

    def cancel(self, lane: int) -> bool:
        self.cancelled.add(lane)
        return True

    def wait(self, seconds: float) -> EndedBatch | None:
        is_ended = bool(self.running) and self.random.random() < 0.7
        self.now += seconds * self.random.random() if is_ended else seconds
        self.now += self.random.choice((0, 0, 2))  # sometimes a batch is slow
        if not is_ended:
            self.stop.wait()
            return None
        lane = self.random.choice(list(self.running))
        plan = self.running[lane]
        if self.endless & {each.queue for each in plan.ranges} and lane not in self.cancelled:
            return None
        del self.running[lane]
        try:
            if lane in self.cancelled:
                self.cancelled.remove(lane)
                raise RuntimeError("the job group is cancelled")
            self.sink.run(plan)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # as the threads do
            return EndedBatch(lane, error)
        return EndedBatch(lane, None)


@dataclass
class FakeWatch:
    """Says that these brokers do not answer, or executors if there are none."""

    troubles: list[Trouble] = field(default_factory=list)
    slow: Set[str] = frozenset()
    """These brokers never answer in time."""
    watched: list[bool] = field(default_factory=list)

    def watch(self, topics: Mapping[str, str], *, is_slow: bool) -> None:
        self.watched.append(is_slow)

    def stop(self) -> None:
        self.watched.append(False)

    def find_trouble(
        self, plan: BatchPlan, group: str, pulled: Set[str], seconds: float
    ) -> Trouble | None:
        if slow := self.slow & pulled:
            return Trouble("slow", frozenset(slow))
        if self.troubles and self.troubles[0].brokers <= pulled:
            return self.troubles.pop(0)
        return None


@dataclass
class Played:
    """A loop whose threads, sink and planner are replaced."""

    loop: BatchLoop
    stop: Hurried
    threads: FakeThreads
    watch: FakeWatch
    sink: FakeSink

    def run(self) -> int:
        return self.loop.run(self.stop)


def make_loop(
    entries: Any,
    planner: Any,
    sink: FakeSink,
    state: CheckpointState | None = None,
    waits: int = 1000,
    lanes: int = 1,
    seed: int = 0,
    *,
    seconds: float = 0.0,
    is_scheduled: bool = True,
) -> Played:
    stop = Hurried(waits)
    threads = FakeThreads(sink, stop, seed)
    replaced: tuple[Any, Any] = (threads, sink)
    watch: Any = FakeWatch()
    loop = BatchLoop(
        state or make_state({A: 0}, batch=-1), entries, planner, *replaced, LaneDealer(lanes),
        watch, seconds, is_scheduled=is_scheduled, clock=lambda: threads.now,
    )  # fmt: skip
    return Played(loop, stop, threads, watch, sink)


def measure_pauses(it: Played, planner: Any) -> list[float]:
    """Run the loop, and measure how long it waits each time before it plans again."""
    asked, plan = list[float](), planner.plan

    def note(*args: Any) -> Any:
        asked.append(it.threads.now)
        return plan(*args)

    planner.plan = note
    assert it.run() == exit_codes.DONE
    return [later - earlier for earlier, later in itertools.pairwise(asked)]


def test_a_batch_is_in_the_journal_before_it_runs_and_after() -> None:
    entries, sink = FakeJournal(), FakeSink()
    it = make_loop(entries, FakePlanner([7, 9]), sink)
    assert it.run() == exit_codes.DONE
    assert [(bool(each.planned), each.batch) for each in entries.entries] == [
        (True, -1), (False, 0), (True, 0), (False, 1),
    ]  # fmt: skip
    assert sink.rows == {0: [Range(A, 0, 7)], 1: [Range(A, 7, 9)]}
    assert (it.loop.ends, it.loop.state.epoch, sink.committed) == ({A: 9}, 3, [0, 1])


def test_an_epoch_without_messages_is_only_written_down() -> None:
    entries, sink = FakeJournal(), FakeSink()
    it = make_loop(entries, FakePlanner([None]), sink)
    assert it.run() == exit_codes.DONE
    assert [each.epoch for each in entries.entries] == [2]
    assert (sink.runs, sink.committed, it.loop.state.batch) == ([], [], -1)


def test_a_batch_that_failed_runs_again_as_it_was_planned() -> None:
    sink = FakeSink(NoBrokerError("down"), NoBrokerError("down"))
    it = make_loop(FakeJournal(), FakePlanner([7, 9]), sink)
    assert it.run() == exit_codes.DONE
    assert sink.runs == [0, 0, 0, 1]
    assert sink.rows == {0: [Range(A, 0, 7)], 1: [Range(A, 7, 9)]}


def test_rows_are_not_written_again_because_the_journal_is_away() -> None:
    entries, sink = FakeJournal(), FakeSink()
    it = make_loop(entries, FakePlanner([7]), sink)
    run = sink.run

    def fail_later(plan: BatchPlan) -> None:
        run(plan)
        entries.failures = [OSError("no space"), OSError("no space")]

    sink.run = fail_later  # type: ignore[method-assign]
    assert it.run() == exit_codes.DONE
    assert (sink.runs, it.loop.ends) == ([0], {A: 7})


def test_the_report_forgets_a_failure_of_the_journal_when_the_entry_is_written() -> None:
    entries, sink = FakeJournal(), FakeSink()
    entries.failures = [OSError("no space")]
    it, seen = make_loop(entries, FakePlanner([7]), sink), list[str | None]()
    run = sink.run

    def look(plan: BatchPlan) -> None:
        seen.append(it.loop.error)
        run(plan)

    sink.run = look  # type: ignore[method-assign]
    assert it.run() == exit_codes.DONE
    assert seen == [None]


def test_a_driver_that_must_end_does_not_wait_for_the_journal() -> None:
    entries, sink = FakeJournal(), FakeSink()
    entries.failures = [OSError("no space") for _ in range(50)]
    it = make_loop(entries, FakePlanner([7]), sink, waits=20)
    assert it.run() == exit_codes.TRY_AGAIN
    assert (sink.runs, it.loop.ends) == ([], {A: 0})


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (lambda: UsersPartError("users.py: no"), exit_codes.PERMANENT),
        (lambda: SystemExit(0), exit_codes.PERMANENT),
        (lambda: ZeroDivisionError("always"), exit_codes.PERMANENT),
        (lambda: NoBrokerError("down"), exit_codes.TRY_AGAIN),
    ],
    ids=["of the user", "that would end the process", "three times", "until it is stopped"],
)
def test_a_batch_that_always_fails_ends_the_job(
    failure: Callable[[], BaseException], code: int
) -> None:
    sink = FakeSink(*(failure() for _ in range(50)))
    it = make_loop(FakeJournal(), FakePlanner([7]), sink, waits=200)
    assert it.run() == code
    assert it.loop.ends == {A: 0}


def test_planning_that_fails_is_tried_again_unless_the_user_must_change_something() -> None:
    planner = FakePlanner([*[NoBrokerError("down")] * 5, 7, UsageError("topics: none")])
    sink = FakeSink()
    it = make_loop(FakeJournal(), planner, sink)
    assert it.run() == exit_codes.PERMANENT
    assert (sink.committed, it.loop.ends) == ([0], {A: 7})


def test_a_driver_that_is_not_the_only_one_ends_before_it_writes() -> None:
    entries, sink = FakeJournal(), FakeSink()
    entries.failures = [JournalTakenError("not ours")]
    assert make_loop(entries, FakePlanner([7]), sink).run() == exit_codes.TRY_AGAIN
    assert sink.runs == []


class TwoQueues:
    """Plans one more message of the queue of each idle lane, up to 20."""

    def plan(self, state: CheckpointState, idle: Set[int]) -> tuple[CheckpointState, int]:
        start = plans.read_end(state, filters.EVERYTHING)
        end = {queue: min(20, at + 1) for queue, at in start.offsets.items()}
        deal = LaneDealer(2).make_deal(state, {A: "g-0", B: "g-1"}, idle)
        return plans.plan(state, Entry(end, start.wanted), 7, "", deal), 7


def test_brokers_are_asked_less_and_less_often_while_there_is_nothing_to_read() -> None:
    planner = FakePlanner([*[0] * 6, 7, *[0] * 6])
    it = make_loop(FakeJournal(), planner, FakeSink(), waits=100, seed=1, is_scheduled=False)
    waits = [round(each, 3) for each in measure_pauses(it, planner)]
    assert all(map(operator.ge, waits, [0.1, 0.2, 0.4, 0.5, 0.5, 0.5, 0.1, 0.1, 0.2, 0.4, 0.5]))
    assert min(waits[6:9]) < 0.5, "a batch ends the long waits"
    assert len(waits) > 20, "the driver goes on asking"


def test_a_lane_goes_on_while_the_batch_of_another_one_fails() -> None:
    sink = FakeSink()
    it = make_loop(
        FakeJournal(), TwoQueues(), sink, make_state({A: 0, B: 0}, batch=-1), waits=300, lanes=2
    )
    run = sink.run

    def fail(plan: BatchPlan) -> None:
        if plan.planned.lane == 1:
            raise NoBrokerError("broker-b is down")
        run(plan)

    sink.run = fail  # type: ignore[method-assign]
    assert it.run() == exit_codes.TRY_AGAIN
    assert it.loop.ends == {A: 20, B: 0}
    assert it.loop.error == "NoBrokerError: broker-b is down"
    assert it.loop.state.epoch == 1, "an assignment is adopted once all lanes follow it"


class MovingQueue:
    """The queue moves from the second lane to the first one while the second one reads it."""

    def plan(self, state: CheckpointState, idle: Set[int]) -> tuple[CheckpointState, int]:
        start = plans.read_end(state, filters.EVERYTHING)
        is_begun = bool(state.planned) or state.batch >= 0
        deal = LaneDealer(2).make_deal(state, {A: "g-0" if is_begun else "g-1"}, idle)
        return plans.plan(state, Entry({A: 14 if is_begun else 7}, start.wanted), 7, "", deal), 7


def test_a_scheduled_run_asks_for_all_lanes_before_it_ends() -> None:
    """The first lane had nothing to read when it was asked."""
    it = make_loop(FakeJournal(), MovingQueue(), FakeSink(), lanes=2, seconds=1000.0)
    assert it.run() == exit_codes.DONE
    assert it.loop.ends == {A: 14}


def test_of_several_batches_of_a_lane_the_first_one_runs_first() -> None:
    """The driver before had more lanes."""
    batches = [
        PlannedBatch(number, 1, "", {}, [(*queue, 0, 5)], lane=lane)
        for number, lane, queue in ((6, 1, B), (5, 0, A))
    ]
    state, sink = make_state({A: 0, B: 0}, batch=4, planned=batches), FakeSink()
    assert make_loop(FakeJournal(), FakePlanner([]), sink, state).run() == exit_codes.DONE
    assert sink.runs == [5, 6]


def test_lanes_together_ask_brokers_no_more_often_than_one() -> None:
    planner, state = TwoQueues(), make_state({A: 0, B: 0}, batch=-1)
    it = make_loop(FakeJournal(), planner, FakeSink(), state, lanes=2, seed=4)
    assert min(measure_pauses(it, planner)) > 0.099


def test_an_assignment_is_adopted_once_all_lanes_follow_it() -> None:
    entries = FakeJournal()
    it = make_loop(
        entries, TwoQueues(), FakeSink(), make_state({A: 0, B: 0}, batch=-1), lanes=2, seed=3
    )
    assert it.run() == exit_codes.DONE
    adopted = [each.epoch for each in entries.entries].index(7)
    numbers = [each.offsets["orders"]["broker-a"] for each in entries.entries]
    assert min(numbers[adopted].values()) == 1, "one batch of each lane is committed"
    assert all(min(each.values()) == 0 for each in numbers[:adopted])


def test_a_silent_broker_is_cut_out_of_a_batch_and_read_later() -> None:
    """The batch keeps its number, so its rows replace those of the first attempt."""
    entries, sink = FakeJournal(), FakeSink()
    it = make_loop(entries, RandomPlanner(random.Random(1), 1), sink, make_state(
        dict.fromkeys(OWNERS, 0), batch=-1
    ))  # fmt: skip
    it.watch.troubles = [
        Trouble("it leaves out broker broker-b, which does not answer", frozenset({"broker-b"}))
    ]
    run = sink.run

    def answer_again(plan: BatchPlan) -> None:
        it.threads.endless = set()
        run(plan)

    sink.run = answer_again  # type: ignore[method-assign]
    it.threads.endless = {FAR}
    assert it.run() == exit_codes.DONE
    planned, cut = (each.planned for each in entries.entries[:2])
    assert [each.number for each in planned + cut] == [0, 0]
    first = {journal.read_range(row).queue for row in cut[0].ranges}
    assert (first, {each.queue for each in sink.rows[0]}) == (set(OWNERS) - {FAR}, first)
    assert FAR in {each.queue for each in sink.rows[1]}
    assert it.loop.ends == dict.fromkeys(OWNERS, TOP)
    assert it.watch.watched[-1] is False


@pytest.mark.parametrize("seed", range(6))
def test_a_slow_broker_is_read_though_batches_leave_it_out(seed: int) -> None:
    planner = RandomPlanner(random.Random(2), 1)
    begun = make_state(dict.fromkeys(OWNERS, 0), batch=-1)
    it = make_loop(FakeJournal(), planner, FakeSink(), begun, waits=3000, seed=seed)
    it.watch.slow = {"broker-b"}
    events: list[str] = []
    run, cancel = it.sink.run, it.threads.cancel

    def note_run(plan: BatchPlan) -> None:
        events.extend("read" for each in plan.ranges if each.queue == FAR)
        run(plan)

    def note_cancel(lane: int) -> bool:
        events.append("cut")
        return cancel(lane)

    it.sink.run, it.threads.cancel = note_run, note_cancel  # type: ignore[method-assign]
    assert it.run() == exit_codes.DONE
    assert it.loop.ends == dict.fromkeys(OWNERS, TOP)
    assert "cut" in events
    assert ("cut", "cut") not in itertools.pairwise(events), "it is read before it is cut out again"


def test_a_batch_that_waits_for_an_executor_runs_again_as_it_was_planned() -> None:
    entries, sink = FakeJournal(), FakeSink()
    it = make_loop(entries, FakePlanner([7]), sink)
    it.threads.endless = {A}
    it.watch.troubles = [Trouble("executor 3 does not answer")]
    cancel = it.threads.cancel

    def thaw(lane: int) -> bool:
        it.threads.endless = set()
        return cancel(lane)

    it.threads.cancel = thaw  # type: ignore[method-assign]
    assert it.run() == exit_codes.DONE
    assert (sink.runs, sink.rows, it.loop.error) == ([0], {0: [Range(A, 0, 7)]}, None)


def test_a_batch_is_cancelled_only_a_few_times() -> None:
    """Then Spark's own limits decide: it may be the same executor again and again."""
    it = make_loop(FakeJournal(), FakePlanner([7]), FakeSink(), waits=300)
    it.threads.endless = {A}
    it.watch.troubles = [Trouble("executor 3 does not answer") for _ in range(50)]
    wait, waits = it.threads.wait, 0

    def end_later(seconds: float) -> EndedBatch | None:
        nonlocal waits
        waits += it.loop.cancelled["executor"] >= MOST_CANCELS
        if waits > 20:
            it.threads.endless = set()
        return wait(seconds)

    it.threads.wait = end_later  # type: ignore[method-assign]
    assert it.run() == exit_codes.DONE
    assert it.loop.cancelled["executor"] == MOST_CANCELS


STEPS = ("plan", "planned", "half", "written", "committed")
FAR = MessageQueue("orders", "broker-b", 0)
OWNERS = {A: "g-0", B: "g-1", C: "g-2", FAR: "g-0"}
TOP = 60


@dataclass
class RandomPlanner:
    """Plans a few messages of random queues, with the real deal and in an assignment that moves."""

    random: random.Random
    lanes: int

    def plan(self, state: CheckpointState, idle: Set[int]) -> tuple[CheckpointState, int]:
        slots = [f"g-{self.random.randrange(4)}" for _ in OWNERS]
        owners = dict(zip(OWNERS, slots, strict=True))
        deal = LaneDealer(self.lanes).make_deal(state, owners, idle)
        start = plans.read_end(state, filters.EVERYTHING)
        end = {
            queue: min(TOP, at + self.random.randrange(1, 9)) for queue, at in start.offsets.items()
        }
        if min(start.offsets.values()) == TOP:
            return state, state.epoch
        found = plans.plan(state, Entry(end, start.wanted), state.epoch + 1, "", deal)
        return found, state.epoch + 1


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("seed", range(6))
def test_a_driver_that_dies_at_any_step_leaves_what_the_next_one_needs(
    tmp_path: Path, step: str, lanes: int, seed: int
) -> None:
    """Drivers die at one of the first times that they reach the step, until all is read."""
    store, rows = LocalStore(tmp_path), dict[int, list[Range]]()
    JobJournal(store).append(make_state(dict.fromkeys(OWNERS, 0), batch=-1))
    rng, deaths, code = random.Random(seed), 0, None
    while code is None:
        entries = JobJournal(store)
        state = entries.read_newest()
        assert state is not None
        sink = FakeSink()
        sink.rows = rows
        it = make_loop(
            entries, RandomPlanner(rng, lanes), sink, state, lanes=lanes, seed=rng.randrange(999)
        )
        it.watch.troubles = [
            Trouble("", frozenset(rng.choice([(), ("broker-b",)]))) for _ in range(5)
        ]
        kill_at(step, rng.randrange(1, 4), it.loop, entries, sink)
        try:
            code = it.run()
        except DiedError:
            deaths += 1
    assert (code, deaths > 1) == (exit_codes.DONE, True)
    last = JobJournal(store).read_newest()
    assert last is not None
    assert (journal.read_offsets(last.offsets), last.planned) == (dict.fromkeys(OWNERS, TOP), [])
    for queue in OWNERS:
        ranges = sorted(
            (each.start, each.stop)
            for parts in rows.values()
            for each in parts
            if each.queue == queue
        )
        starts, stops = zip(*ranges, strict=True)
        assert (starts[0], stops[-1], starts[1:]) == (0, TOP, stops[:-1])


def kill_at(step: str, left: int, loop: BatchLoop, entries: JobJournal, sink: FakeSink) -> None:
    """Let the driver die when it reaches the step for the given time."""
    append, run, planner = entries.append, sink.run, loop._planner
    plan, count = planner.plan, itertools.count(1)

    def die() -> None:
        if next(count) == left:
            raise DiedError(step)

    def die_before_or_after(state: CheckpointState) -> None:
        is_plan = len(state.planned) > len(loop.state.planned)
        append(state)
        if step == ("planned" if is_plan else "committed"):
            die()

    def die_in_or_after(found: BatchPlan) -> None:
        if step == "half":
            sink.rows[found.planned.number] = found.ranges[:1]
            die()
        run(found)
        if step == "written":
            die()

    def die_at_plan(state: CheckpointState, idle: Set[int]) -> tuple[CheckpointState, int]:
        found = plan(state, idle)
        if step == "plan" and found[0] != state:
            die()
        return found

    entries.append = die_before_or_after  # type: ignore[method-assign]
    sink.run = die_in_or_after  # type: ignore[method-assign,assignment]
    planner.plan = die_at_plan  # type: ignore[method-assign,assignment]
