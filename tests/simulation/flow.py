"""
The world of a flow: the leader is the driver, each member is a task, and only the driver commits.

A commit and its answer may be lost, late or duplicated, and the driver may end at any time. The
tasks of a lost driver end soon after it, and until then they reach no other driver. A lost driver
leaves only the journal. The journal must have each offset once, and must leave out no offset.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from contract.kinds.groups import OnOutage
from coordinator.group import GroupCoordinator
from follower import actions
from follower.core import FollowerCore
from spark_jobs.pipeline.flow.commits import Commits, make_pace
from spark_jobs.pipeline.flow.wire import CommitFigures, TaskCommit
from spark_jobs.planning import Range
from tests.simulation import story
from tests.simulation.story import Story
from tests.simulation.world import TERMS, BrokenPromiseError, Leader, Process, World

PACE = make_pace(1.0)
AGAIN_SECONDS = 1.0
END_SECONDS = 3.0
"""Within this time, the tasks of a lost driver end."""
Settle = Callable[[bool], None]
"""Tells a task whether its commit counts."""


class Driver(Leader):
    """A coordinator that also commits, as `FlowServer` does."""

    def __init__(self, world: "FlowWorld", now: float) -> None:
        super().__init__(world, now)
        self.core = GroupCoordinator(TERMS, now, 0.0)  # no task of an earlier driver is left
        self.flow = world
        ends: Any = world.database
        self.commits = Commits(ends)
        self.unsettled: dict[str, Settle] = {}
        self.accepted: list[TaskCommit] = []
        self.is_writing = False

    def hear_commit(self, name: str, asked: TaskCommit, settle: Settle) -> None:
        session: Any = self.core.sessions.get(name)
        if session is not None and self.commits.is_repeated(asked):
            if asked.session in self.unsettled:
                self.unsettled[asked.session] = settle
            else:
                settle(True)
        elif not self.commits.accept(asked, session):
            settle(False)
        else:
            self.unsettled[asked.session] = settle
            self.accepted.append(asked)
            self._write()

    def _write(self) -> None:
        """Write all accepted commits as one entry, which takes a while."""
        if self.accepted and not self.is_writing:
            group, self.accepted, self.is_writing = self.accepted, [], True
            self.flow.later(self.flow.rng.random(), partial(self._note_written, group))

    def _note_written(self, group: list[TaskCommit]) -> None:
        if self.flow.leader is not self:
            return  # the driver has ended before the entry was complete
        for asked in group:
            self.flow.note_committed(asked)
        for asked in group:
            self.unsettled.pop(asked.session)(True)
        self.is_writing = False
        self._write()

    def wake(self) -> None:
        super().wake()
        self.commits.forget_others({each.id for each in self.core.sessions.values()})


@dataclass(slots=True)
class Holding:
    """One period in which a task holds a queue, and what the task has done in it."""

    life: int
    committed: int
    handled: int


class FlowProcess(Process):
    """A task. It commits the rows of all its queues together."""

    def __init__(self, world: "FlowWorld", number: int) -> None:
        super().__init__(world, number)
        self.flow = world
        self.core = FollowerCore(world.make_session, PACE)
        self.driver: Leader | None = None
        """The only driver that the task can reach: the first one that it has found."""
        self.lives: dict[int, int] = {}
        """The `life` of the newest action `Locate` for each queue."""
        self.holdings: dict[int, Holding] = {}
        self.number_of_commit = 0
        self.in_flight: TaskCommit | None = None
        self.connection = 0
        """The number of the task's newest connection. Each connection sends a commit once."""
        self.heard_connection = 0
        """The newest connection that the driver knows. The driver has closed the older ones."""
        self.wanted: list[actions.Commit[int]] = []

    def may_act_on(self, queue: int, now: float) -> bool:
        """A task of a lost driver may still read for a moment, but it cannot commit."""
        return self.driver is self.flow.leader and super().may_act_on(queue, now)

    def perform(self, action: Any) -> None:
        if isinstance(action, actions.Locate):
            self.lives[action.queue] = action.life
        if not isinstance(action, actions.Commit):
            super().perform(action)
            return
        self.wanted.append(action)
        self.flow.later(0.0, partial(self.do, self._commit))

    def _begin(self, queue: int, life: int, now: float) -> list[Any]:
        """
        Ask the driver where the queue begins, until it answers.

        A connection keeps the order of messages, so the driver answers earlier commits first.
        """
        if queue not in self.core.holds or self.lives[queue] != life:
            return []  # the task no longer holds the queue, or holds it anew
        driver = self.flow.leader
        is_linked = self.flow.is_linked(self) and self.in_flight is None
        if not isinstance(driver, Driver) or not is_linked:
            again = partial(self._begin, queue, life)
            self.flow.later(AGAIN_SECONDS, partial(self.do, again))
            return []
        ends: Any = driver.commits.ends
        begin = ends.setdefault(queue, 0)
        self.holdings[queue] = Holding(life, begin, begin)
        return self.core.note_begin(queue, life, begin, now)

    def _finish(self, queue: int, life: int, stop: int, now: float) -> list[Any]:
        self.handling.pop(queue, None)
        held = self.holdings[queue]
        if held.life == life:
            held.handled = stop
        return self.core.note_handled(queue, life, stop, now)

    def _commit(self, now: float) -> list[Any]:
        """Report the wanted commits that are done; commit the rest unless a commit is in flight."""
        found: list[Any] = []
        left: list[actions.Commit[int]] = []
        for each in self.wanted:
            held = self.holdings[each.queue]
            if held.life == each.life and held.committed < each.offset:
                left.append(each)
            else:
                found += self.core.note_commit(each.queue, each.life, each.offset, now)
        self.wanted = left
        if left and self.in_flight is None and self.core.may_act(now):
            ranges: list[Any] = [
                Range(queue, held.committed, held.handled)  # type: ignore[arg-type]  # a number
                for queue, held in self.holdings.items()
                if queue in self.core.holds and held.handled > held.committed
            ]
            if ranges:
                self.number_of_commit += 1
                self.in_flight = TaskCommit(
                    0, self.core.session, self.number_of_commit, ranges, "", "", CommitFigures()
                )
                lives = {queue: held.life for queue, held in self.holdings.items()}
                self._send(self.in_flight, lives)
        return found

    def _send(self, asked: TaskCommit, lives: dict[int, int]) -> None:
        """Send a commit on one new connection after another, until it is answered."""
        if asked is not self.in_flight or self.is_dead:
            return
        self.connection += 1
        hear = partial(self._hear, asked, lives, self.connection)
        self.flow.carry(self, partial(self.flow.bring, self, self.connection, asked, hear))
        self.flow.later(AGAIN_SECONDS, partial(self._send, asked, lives))

    def _hear(
        self, asked: TaskCommit, lives: dict[int, int], connection: int, is_accepted: bool
    ) -> None:
        def note(now: float) -> list[Any]:
            if asked is not self.in_flight or connection != self.connection:
                return []
            self.in_flight = None
            for part in asked.ranges if is_accepted else ():
                queue: Any = part.queue
                held = self.holdings[queue]
                if held.life == lives[queue]:
                    held.committed = part.stop
            if is_accepted:
                return self._commit(now)
            self.flow.later(AGAIN_SECONDS, partial(self.do, self._commit))
            return []

        self.flow.carry(self, partial(self.do, note))


class FlowWorld(World):
    """The world of one story of a flow. Its `database` is the journal."""

    def __init__(self, told: Story) -> None:
        super().__init__(replace(told, on_outage=OnOutage.STOP))

    def make_leader(self) -> Leader:
        self.database = getattr(self, "database", {})
        return Driver(self, self.now)

    def make_process(self, number: int) -> Process:
        return FlowProcess(self, number)

    def is_linked(self, process: Process) -> bool:
        """Whether the task reaches its driver now."""
        assert isinstance(process, FlowProcess)
        if process.driver is None:
            process.driver = self.leader
        is_cut = self.now < self.cut.get(process.number, 0.0)
        return self.leader is not None and process.driver is self.leader and not is_cut

    def is_lost(self, process: Process) -> bool:
        return not self.is_linked(process) or super().is_lost(process)

    def _happen(self, event: story.Event) -> None:
        super()._happen(event)
        if isinstance(event, story.ChangeLeader):
            for process in self.processes:
                self.later(self.rng.uniform(0, END_SECONDS), partial(self._end, process))

    def _end(self, process: Process) -> None:
        if process is self.processes[process.number]:
            self._replace(process.number, self.rng.random())

    def bring(
        self, process: FlowProcess, connection: int, asked: TaskCommit, settle: Settle
    ) -> None:
        if isinstance(self.leader, Driver) and process.driver is self.leader:
            if connection <= process.heard_connection:
                return
            process.heard_connection = connection
            self.leader.hear_commit(process.name, asked, settle)

    def note_committed(self, asked: TaskCommit) -> None:
        """Add ranges to the journal: each must begin where the journal of its queue ends."""
        for part in asked.ranges:
            queue: Any = part.queue
            end = self.database.get(queue, 0)
            if part.start != end:
                raise BrokenPromiseError(
                    f"session {asked.session} commits queue {queue} from {part.start} on, and the "
                    f"journal ends at {end}"
                )
            self.database[queue] = part.stop
