"""
Runs the real cores of coordinator and follower in virtual time, in a simulated world.

Time is a heap of scheduled actions. Each member has its own clock, which drifts by up to 1 %. The
network delays, loses and duplicates messages. A member's work (finding offsets, pulls, the user's
handler, commits) takes random times. After each step, the world checks whether a promise is broken.
"""

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from contract.following import Asked, Grants, Refusal, Terms
from contract.kinds.groups import OnOutage
from coordinator.group import GroupCoordinator
from coordinator.sessions import Session
from follower import actions
from follower.core import FollowerCore
from tests.simulation import story
from tests.simulation.story import Story

TERMS = Terms(session=10.0, drain=6.0)
ANSWER_SECONDS = TERMS.poll + 3.0
"""How long a member waits for an answer."""
CALM_SECONDS = 2 * (TERMS.session + TERMS.drain) + TERMS.poll + 20.0
"""Within this time after the last event, every queue is read again by its owner."""
DRIFT = 0.01


class BrokenPromiseError(AssertionError):
    """Something happened that must never happen."""


class Batch:
    """A range of offsets."""

    __slots__ = ("stop",)

    def __init__(self, stop: int) -> None:
        self.stop = stop


class Leader:
    """A coordinator, and the requests that wait for an answer, as in the real server."""

    def __init__(self, world: "World", now: float) -> None:
        self.world = world
        self.core: GroupCoordinator[int] = GroupCoordinator(TERMS, now, TERMS.session)
        self.waiting: dict[str, tuple[Asked[int], Callable[[Any], None]]] = {}
        self.granted: dict[str, frozenset[int]] = {}

    def hear(self, name: str, asked: Asked[int], reply: Callable[[Any], None]) -> None:
        now = self.world.now
        answer = self.core.ask(name, asked, now)
        if isinstance(answer, Refusal):
            reply(answer)
        else:
            replaced = self.waiting.pop(name, None)
            if replaced is not None:
                replaced[1](Refusal.STALE)
            if answer.revision != asked.revision:
                reply(answer)
            else:
                self.waiting[name] = (asked, reply)
                self.world.later(TERMS.poll, partial(self._end_poll, name, asked))
        self.wake()

    def _end_poll(self, name: str, asked: Asked[int]) -> None:
        found = self.waiting.get(name)
        if found is not None and found[0] is asked and self.world.leader is self:
            self._answer(name)

    def _answer(self, name: str) -> None:
        _, reply = self.waiting.pop(name)
        session = self.core.sessions.get(name)
        reply(self.core.answer(session) if session else Refusal.SESSION_OVER)

    def wake(self) -> None:
        """Answer all members whose grants have changed, and schedule the next wake-up."""
        for name in sorted(self.core.take_changed()):
            session = self.core.sessions.get(name)
            if session is not None:
                self._check(session)
            if name in self.waiting:
                self._answer(name)

    def _check(self, session: Session[int]) -> None:
        """Check that each queue is granted to its owner, or lent while the owner has no session."""
        owners = self.world.epochs.get(self.core.epoch, {})
        for queue in session.grants - self.granted.get(session.id, frozenset()):
            owner = owners.get(queue)
            if owner is None or (owner != session.member and owner in self.core.sessions):
                raise BrokenPromiseError(
                    f"queue {queue} of member {owner} is granted to {session.member}"
                )
        self.granted[session.id] = frozenset(session.grants)

    def tick(self) -> None:
        self.core.tick(self.world.now)
        self.wake()


class Process:
    """A member's process: the core, its clock, and its work in flight."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.name = world, str(number)
        self.number = number
        self.rate = 1 + world.rng.uniform(-DRIFT, DRIFT)
        self.offset = world.rng.uniform(0, 1000)
        self.core: FollowerCore[int, Batch] = FollowerCore(world.make_session)
        self.is_dead = False
        self.is_stopping = False
        self.frozen_until = 0.0
        self.delayed: list[Callable[[float], list[Any]]] = []
        """Steps that were due while the process was frozen, in their order."""
        self.wakes_at: float | None = None
        self.held: frozenset[int] = frozenset()
        self.handling: dict[int, tuple[str, float]] = {}
        """By queue, for running handlers: the session, and the start by the member's clock."""
        self.stored: dict[tuple[int, int], int] = {}
        """The positions in the database that this process knows, by queue and `life`."""

    def clock(self, now: float) -> float:
        return self.offset + now * self.rate

    def may_act_on(self, queue: int, now: float) -> bool:
        """Whether the process would pull, handle or commit this queue if it ran now."""
        return not self.is_dead and queue in self.held and self.core.may_act(self.clock(now))

    def has_session_for(self, queue: int, now: float) -> bool:
        """Whether the process holds this queue in a session that has not ended."""
        is_in = not self.is_dead and queue in self.held
        return is_in and self.core.has_session(self.clock(now))

    def do(self, step: Callable[[float], list[Any]]) -> None:
        """Take a step of the core now, or when the process runs again."""
        world = self.world
        if self.is_dead:
            return
        if world.now < self.frozen_until:
            self.delayed.append(step)
            return
        found = step(self.clock(world.now))
        holds = self.core.holds
        if holds != self.held:
            taken, self.held = holds - self.held, holds
            if taken and self.is_stopping:
                raise BrokenPromiseError(f"member {self.name} stops, and takes {taken}")
            world.check_taken(self, taken)
        for action in found:
            self.perform(action)
        self.schedule()
        if self.is_stopping and not holds:
            self.is_dead = True
            world.say_leave(self)

    def freeze(self, seconds: float) -> None:
        self.frozen_until = max(self.frozen_until, self.world.now + seconds)
        self.world.at(self.frozen_until, self._thaw)

    def _thaw(self) -> None:
        """Take the delayed steps in the order in which they were due, as an event loop does."""
        if self.world.now >= self.frozen_until:
            delayed, self.delayed = self.delayed, []
            for step in delayed:
                self.do(step)

    def schedule(self) -> None:
        at = self.core.find_next_change()
        if at is None:
            return
        due = max((at - self.offset) / self.rate + 1e-6, self.world.now)
        if self.wakes_at is None or due < self.wakes_at - 1e-9 or self.wakes_at <= self.world.now:
            self.wakes_at = due
            self.world.at(due, partial(self.do, self.core.tick))

    def perform(self, action: Any) -> None:
        world, core = self.world, self.core
        now = self.clock(world.now)
        if isinstance(action, actions.AskCoordinator):
            world.send(self, action.asked)
            return
        if isinstance(action, actions.Abandon):
            self._check_abandoned(action.queue, now)
            return
        if not (action.queue in core.holds and core.may_act(now)):
            raise BrokenPromiseError(f"member {self.name} acts without a grant: {action}")
        world.later(world.work_seconds(), partial(self.do, self._work(action, now)))

    def _work(self, action: Any, now: float) -> Callable[[float], list[Any]]:
        """Begin work on a queue, and return the step that ends it."""
        core, queue, life = self.core, action.queue, action.life
        if isinstance(action, actions.Locate):
            return partial(self._begin, queue, life)
        if isinstance(action, actions.PullQueue):
            return partial(core.note_batch, queue, life, Batch(action.offset + 1))
        if isinstance(action, actions.Handle):
            self.handling[queue] = (core.session, now)
            return partial(self._finish, queue, life, action.batch.stop)
        assert isinstance(action, actions.Commit)
        return partial(core.note_commit, queue, life, action.offset)

    def _begin(self, queue: int, life: int, now: float) -> list[Any]:
        found = self.stored[queue, life] = self.world.database.get(queue, 0)
        return self.core.note_begin(queue, life, found, now)

    def _finish(self, queue: int, life: int, stop: int, now: float) -> list[Any]:
        """End the handler's transaction. It writes nothing if the stored position has changed."""
        self.handling.pop(queue, None)
        if self.world.database.get(queue, 0) != self.stored[queue, life]:
            return self.core.note_moved_on(queue, life, now)
        self.world.database[queue] = self.stored[queue, life] = stop
        return self.core.note_handled(queue, life, stop, now)

    def _check_abandoned(self, queue: int, now: float) -> None:
        """Check that a handler is abandoned only with its session, or after its time limit."""
        session, since = self.handling.pop(queue, ("", 0.0))
        if session == self.core.session and now - since < TERMS.drain - 1e-6:
            raise BrokenPromiseError(f"member {self.name} releases {queue} with work in flight")


class World:
    """The world of one story."""

    def __init__(self, told: Story) -> None:
        self.story = told
        self.rng = random.Random(told.seed)
        self.now = 0.0
        self.steps = 0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._sessions = itertools.count()
        self.loss = self.twice = 0.0
        self.slow = 0.05
        self.cut: dict[int, float] = {}
        self.leader: Leader | None = self.make_leader()
        self.published: list[tuple[float, int, dict[int, int]]] = []
        self.epoch = 0
        self.owners: dict[int, str] = {}
        self.epochs: dict[int, dict[int, str]] = {}
        self.processes = [self.make_process(number) for number in range(told.members)]
        self.everyone = list(self.processes)
        """All processes, including dead ones."""
        self.takes = 0
        self.terms = replace(TERMS, on_outage=told.on_outage)
        self.database: dict[int, int] = {}
        """Positions of queues, as handlers keep them with their data."""

    def play(self) -> int:
        """Play the story to its end; return the number of steps."""
        for event in self.story.events:
            self.at(event.at, partial(self._happen, event))
        for process in self.processes:
            self.later(self.rng.random(), partial(process.do, process.core.tick))
        self.later(0.0, self._tick_leader)
        self.at(story.TROUBLE_SECONDS, self._calm_down)
        self._run(story.TROUBLE_SECONDS + CALM_SECONDS + 40.0)
        self._check_calm()
        before, positions = self.takes, dict(self.database)
        self._run(self.now + 30.0)
        if self.takes != before:
            raise BrokenPromiseError("queues move though nothing happens")
        for queue in self.owners:
            if self.database.get(queue, 0) == positions.get(queue, 0):
                raise BrokenPromiseError(f"queue {queue} stands still though nothing happens")
        return self.steps

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (when, next(self._count), what))

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now + seconds, next(self._count), what))

    def make_leader(self) -> Leader:
        return Leader(self, self.now)

    def make_process(self, number: int) -> Process:
        return Process(self, number)

    def make_session(self) -> str:
        return str(next(self._sessions))

    def work_seconds(self) -> float:
        draw = self.rng.random()
        return draw * 0.5 if draw < 0.97 else draw * 9.0

    def send(self, process: Process, asked: Asked[int]) -> None:
        """Carry a request to the leader and its answer back; the member gives up after a while."""
        self.later(ANSWER_SECONDS, partial(process.do, partial(process.core.hear_failure, asked)))
        self.carry(process, partial(self._arrive, process, asked))

    def carry(self, process: Process, arrive: Callable[[], None]) -> None:
        """Carry a message between a member and the leader, once, twice or never."""
        for _ in range(1 + (self.rng.random() < self.twice)):
            if not self.is_lost(process):
                self.later(self._delay(), arrive)

    def _arrive(self, process: Process, asked: Asked[int]) -> None:
        if self.leader is not None:
            self.leader.hear(process.name, asked, partial(self._reply, process, asked))

    def _reply(self, process: Process, asked: Asked[int], answer: Any) -> None:
        if self.is_lost(process):
            return
        if isinstance(answer, Grants):
            step = partial(process.core.hear_answer, asked, answer, self.terms)
        else:
            step = partial(process.core.hear_refusal, asked, answer)
        self.later(self._delay(), partial(process.do, step))

    def is_lost(self, process: Process) -> bool:
        is_cut = self.now < self.cut.get(process.number, 0.0)
        return is_cut or self.rng.random() < self.loss

    def _delay(self) -> float:
        return self.rng.random() * (self.slow if self.rng.random() < 0.2 else 0.02)

    def _run(self, until: float) -> None:
        while self._heap and self._heap[0][0] <= until:
            self.now, _, what = heapq.heappop(self._heap)
            self.steps += 1
            what()
        self.now = until

    def _tick_leader(self) -> None:
        if self.leader is not None:
            self.leader.tick()
        self.later(0.25, self._tick_leader)

    def _happen(self, event: story.Event) -> None:
        match event:
            case story.Publish():
                self.epoch += 1
                self.owners = {queue: str(owner) for queue, owner in event.owners.items()}
                self.epochs[self.epoch] = self.owners
                self.later(event.delay, partial(self._publish, self.epoch))
            case story.Freeze():
                self.processes[event.member].freeze(event.seconds)
            case story.Kill():
                self._replace(event.member, event.restart)
                if event.told is not None:
                    self.later(event.told, partial(self._tell_end, self.processes[event.member]))
            case story.Leave():
                process = self.processes[event.member]
                if not process.is_dead:
                    self.say_leave(process)
                self._replace(event.member, event.restart)
            case story.Stop():
                self._stop(self.processes[event.member], event.restart)
            case story.CutOff():
                self.cut[event.member] = self.now + event.seconds
            case story.ChangeLeader():
                self.leader = None
                self.later(event.gap, self._lead)
            case story.Weather():
                self.loss, self.twice, self.slow = event.loss, event.twice, event.slow
                self.later(event.seconds, self._clear_weather)

    def _publish(self, epoch: int) -> None:
        if self.leader is not None and epoch:
            owners = self.epochs[epoch]
            names = [process.name for process in self.processes]
            self.leader.core.publish(epoch, owners, names, self.now)
            self.leader.wake()

    def _lead(self) -> None:
        if self.leader is None:
            self.leader = self.make_leader()
            self._publish(self.epoch)

    def say_leave(self, process: Process) -> None:
        """Tell the leader that a member leaves, unless the message is lost."""
        if not self.is_lost(process):
            session = process.core.session
            self.later(self._delay(), partial(self._leave, process.name, session))

    def _stop(self, process: Process, restart: float) -> None:
        def begin(now: float) -> list[Any]:
            process.is_stopping = True
            seconds = TERMS.drain * (1 + 2 * DRIFT) + 0.1
            self.later(seconds, partial(process.do, check))
            self.later(seconds + restart, partial(self._restart, process.number))
            return process.core.stop(TERMS.drain, now)

        def check(_: float) -> list[Any]:
            raise BrokenPromiseError(f"member {process.name} has not stopped in time")

        process.do(begin)

    def _replace(self, number: int, restart: float) -> None:
        self.processes[number].is_dead = True
        self.later(restart, partial(self._restart, number))

    def _restart(self, number: int) -> None:
        process = self.processes[number]
        if process.is_stopping and not process.is_dead:  # frozen after it began to stop
            self.later(1.0, partial(self._restart, number))
        elif process.is_dead:
            fresh = self.make_process(number)
            self.processes[number] = fresh
            self.everyone.append(fresh)
            fresh.do(fresh.core.tick)

    def _tell_end(self, process: Process) -> None:
        if self.leader is not None:
            self._leave(process.name, process.core.session)

    def _leave(self, name: str, session: str) -> None:
        if self.leader is not None:
            self.leader.core.end(name, session, self.now)
            self.leader.wake()

    def _clear_weather(self) -> None:
        self.loss, self.twice, self.slow = 0.0, 0.0, 0.05

    def _calm_down(self) -> None:
        self._clear_weather()
        self.cut.clear()

    def check_taken(self, process: Process, taken: frozenset[int]) -> None:
        """Check that no two members act on the same queue."""
        self.takes += len(taken)
        # Without a coordinator, a member can keep reading a queue that another member takes. But no
        # member may take the queue while the reader's session lasts, or if only leaders change.
        keeps_reading = self.story.on_outage is OnOutage.KEEP_READING
        is_lenient = keeps_reading and not self.story.only_leaders_change
        for queue in taken:
            for other in self.everyone:
                holds = other.has_session_for if is_lenient else other.may_act_on
                if other is not process and holds(queue, self.now):
                    raise BrokenPromiseError(
                        f"at {self.now:.2f} s member {process.name} takes queue {queue}, "
                        f"which member {other.name} holds"
                    )

    def _check_calm(self) -> None:
        """Check, after the last event, that each queue is read only by its owner."""
        for queue in range(self.story.queues):
            owner = self.owners.get(queue)
            readers = [each.name for each in self.processes if each.may_act_on(queue, self.now)]
            if readers != ([owner] if owner else []):
                raise BrokenPromiseError(
                    f"queue {queue} of member {owner} is read by {readers} at the end"
                )
