"""
Performs what the core decides, on one event loop.

Each action becomes a task. A queue's tasks belong to its `Work`, which ends when the member no
longer holds the queue. If an operation on a queue fails, the queue's own task tries again and
delays no other queue. Only this module calls the core, and always from the event loop.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from contract.following import (
    FIRST_NUMBER,
    Asked,
    Denial,
    Grants,
    GroupSource,
    MemberAnswer,
    PopTerms,
    Refusal,
    Terms,
)
from follower import actions
from follower.asks import Asks, NoAnswerError, RefusedError
from follower.brake import Brake
from follower.clock import clock
from follower.core import FollowerCore
from follower.handling import HaltError, Handling
from follower.metrics import Metrics
from follower.options import FollowerError
from follower.pace import EACH_QUEUE, IN_ORDER, CommitPace
from follower.pauses import make_pauses
from follower.pieces import DeadLetter, Piece
from follower.positions import MovedOnError
from follower.queues import read_queues, show_queues
from follower.work import OverError, Work
from lb_core.errors import AllocationError
from mq_client.values import MessageQueue

log = logging.getLogger("evenkeel.follower")
Value = TypeVar("Value")
Action = actions.Action[MessageQueue, Piece]

FIRST_SECONDS = 5.0
"""Timeout for an answer as long as the coordinator's terms are not known."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Pauses between attempts at brokers."""
MOST_REFUSED_PAUSE = 5.0
"""Longest pause after a refusal that lasts until a user changes something."""
_BY_NAME = {each.value: each for each in Refusal}
_PASSES = frozenset(("NotLeading", Refusal.STALE.value, Refusal.SESSION_OVER.value))


class Serves(Protocol):
    """The brokers of a group."""

    async def locate(self, work: Work) -> int:
        """Find where reading begins."""

    async def pull(self, work: Work, queues: int) -> list[tuple[int, int]]:
        """Pull the next messages into `work.pieces`, and return the gaps before them."""

    async def commit(self, work: Work, offset: int) -> None:
        """Store the offset that is read next."""

    async def bury(self, work: Work, letter: DeadLetter) -> None:
        """Store a message with the dead letters."""

    def reconnect(self) -> None:
        """Give up all open connections; the next requests open new ones."""

    async def close(self) -> None:
        """Close all connections."""


class Pops(Protocol):
    """Pops the messages of a group that is balanced by message, or its leftovers."""

    async def stop(self, drain_seconds: float) -> None:
        """Let running calls of the handler finish, acknowledge, and close all connections."""

    async def close(self) -> None:
        """End at once."""


class Running:
    """One member, from its first request until it stops or the source of its group changes."""

    def __init__(
        self,
        coordinator: Asks,
        open_brokers: Callable[[GroupSource], Serves],
        handling: Handling,
        metrics: Metrics,
        pace: CommitPace = EACH_QUEUE,
        start_pops: Callable[[GroupSource, PopTerms], Pops | None] | None = None,
    ) -> None:
        """
        Do nothing yet.

        `start_pops` returns None if the handler cannot get leftovers. Without it, groups that are
        balanced by message are refused, and leftovers are left to others.
        """
        self._coordinator = coordinator
        self._open_brokers = open_brokers
        self._handling = handling
        self._metrics = metrics
        self._core: FollowerCore[MessageQueue, Piece] = FollowerCore(
            lambda: secrets.token_hex(16), pace
        )
        self._terms: Terms | None = None
        self._source: GroupSource | None = None
        self._brokers: Serves | None = None
        self._start_pops = start_pops
        self._pops: Pops | None = None
        self._ending: asyncio.Task[None] | None = None
        self._works: dict[MessageQueue, Work] = {}
        self._halted: set[Work] = set()
        self._asking: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._due: float | None = None
        """When the timer is due, by `clock`."""
        self._brake = Brake(log)
        self._refusals = 0
        self._trouble = "no coordinator has answered yet"
        self._session = ""
        """The id of the session, for the log; empty until the coordinator has answered."""
        self._session_since = 0.0
        self._shown: frozenset[MessageQueue] = frozenset()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_stopping = False
        self._is_told_to_stop = False
        self._has_left = False
        metrics.show_session_age(self._session_age)

    @property
    def session(self) -> str:
        """The id of the current session."""
        return self._core.session

    @property
    def trouble(self) -> str:
        """Why this member is not ready; empty if it is ready."""
        is_reading = self._core.is_live and self._core.may_act(clock())
        return "" if is_reading or self._is_popping else self._trouble

    async def run(self) -> None:
        """Follow until `stop` has done its work, or the source has changed."""
        try:
            self._tick()
            await self._over
        finally:
            await self._close()

    def stop(self) -> None:
        """Let running calls of the handler finish, then end. A second call ends at once."""
        if self._is_told_to_stop:
            self._end()
            return
        log.info("stopping: running calls of the handler finish first")
        self._is_told_to_stop = True
        self._begin_to_stop()

    def _begin_to_stop(self) -> None:
        if self._is_stopping:
            return
        self._is_stopping = True
        drain = (self._terms or Terms()).drain
        if self._pops is not None:
            self._ending = asyncio.create_task(self._stop_pops(self._pops, drain))
            self._ending.add_done_callback(self._note_asked)
        if not self._is_popping:
            self._turn(lambda now: self._core.stop(drain, now))

    @property
    def _is_popping(self) -> bool:
        """Whether this member pops, or still has popped messages, instead of reading queues."""
        is_by_message = self._source is not None and self._source.messages is not None
        return is_by_message and self._pops is not None

    async def _stop_pops(self, pops: Pops, drain: float) -> None:
        """Stop popping, and then let the session end."""
        await pops.stop(drain)
        self._pops = None
        self._turn(lambda now: self._core.stop(drain, now))

    def _tick(self) -> None:
        self._turn(self._core.tick)

    def _turn(self, take: Callable[[float], list[Action]]) -> None:
        """Pass a fact about the whole member to the core, and update the member's state."""
        self._step(take)
        self._look()

    def _step(self, take: Callable[[float], list[Action]]) -> None:
        """
        Pass a fact about a queue to the core, and perform the resulting actions.

        Such facts are frequent. So the state of the whole member is updated only if one of the
        actions changes it.
        """
        if self._over.done():
            return
        found = take(clock())
        for action in found:
            self._perform(action)
        if any(isinstance(action, actions.AskCoordinator | actions.Abandon) for action in found):
            self._look()
        elif self._due is None or self._due > self._core.commit_at:
            self._wake_at(self._core.commit_at)

    def _perform(self, action: Action) -> None:
        match action:
            case actions.AskCoordinator(asked=asked):
                task = asyncio.create_task(self._ask(asked))
                self._asking.add(task)
                task.add_done_callback(self._note_asked)
            case actions.Locate(queue=queue, life=life):
                assert self._source is not None, "an answer names it before it grants queues"
                work = Work(queue, life, self._source.group, lambda: self._core.may_act(clock()))
                self._works[queue] = work
                work.start(self._locate(work, self._cluster))
            case actions.PullQueue(queue=queue):
                work = self._works[queue]
                work.start(self._pull(work, self._cluster))
            case actions.Handle(queue=queue, batch=piece):
                work = self._works[queue]
                work.start(self._handle(work, piece, self._cluster))
            case actions.Commit(queue=queue, offset=offset, is_again=is_again):
                work = self._works[queue]
                work.start(self._commit(work, offset, is_again, self._cluster))
            case actions.Abandon(queue=queue):
                work = self._works.pop(queue)
                self._halted.discard(work)
                work.end()

    @property
    def _cluster(self) -> Serves:
        assert self._brokers is not None, "an answer names the brokers before it grants queues"
        return self._brokers

    async def _locate(self, work: Work, brokers: Serves) -> None:
        queue, life = work.queue, work.life
        try:
            begin = await self._persist(work, "locate", lambda: self._find_begin(work, brokers))
        except MovedOnError as error:
            await self._begin_anew(work, error)
            return
        log.debug("%s: read from offset %d on", queue, begin)
        self._step(lambda now: self._core.note_begin(queue, life, begin, now))

    async def _find_begin(self, work: Work, brokers: Serves) -> int:
        await self._handling.read_position(work)
        return await brokers.locate(work)

    async def _pull(self, work: Work, brokers: Serves) -> None:
        queue, life = work.queue, work.life
        if not work.pieces:
            queues = max(1, len(self._works))
            gaps = await self._persist(work, "pull", lambda: brokers.pull(work, queues))
            for first, stop in gaps:
                self._metrics.lost.inc(stop - first)
                log.error(
                    "%s: offsets %d to %d are deleted on the broker and were not read: these "
                    "messages are lost to the group",
                    queue,
                    first,
                    stop - 1,
                )
        piece = work.pieces.popleft()
        self._step(lambda now: self._core.note_batch(queue, life, piece, now))

    async def _handle(self, work: Work, piece: Piece, brokers: Serves) -> None:
        queue, life, core = work.queue, work.life, self._core
        try:
            work.refuse_if_late()
            await self._handling.handle(work, piece, brokers.bury)
        except HaltError as halt:
            stop = halt.stop
            work.pieces.clear()
            self._halted.add(work)
            self._metrics.stopped.set(len(self._halted))
            self._step(lambda now: core.note_halt(queue, life, stop, now))
        except MovedOnError as error:
            await self._begin_anew(work, error)
        else:
            self._step(lambda now: core.note_handled(queue, life, piece.stop, now))

    async def _begin_anew(self, work: Work, error: MovedOnError) -> None:
        queue, life = work.queue, work.life
        log.warning("%s: %s; reading continues at the stored position", queue, error)
        await work.pause(FIRST_PAUSE)
        self._step(lambda now: self._core.note_moved_on(queue, life, now))

    async def _commit(self, work: Work, offset: int, is_again: bool, brokers: Serves) -> None:
        queue, life = work.queue, work.life
        try:
            if is_again:
                await self._commit_again(work, offset, brokers)
            else:
                await self._persist(work, "commit", lambda: brokers.commit(work, offset))
        except MovedOnError as error:
            await self._begin_anew(work, error)
            return
        self._step(lambda now: self._core.note_commit(queue, life, offset, now))

    async def _commit_again(self, work: Work, offset: int, brokers: Serves) -> None:
        """Try to commit once: an unreachable broker must not delay the release of a queue."""
        try:
            await brokers.commit(work, offset)
        except (OverError, MovedOnError):
            raise
        except Exception as error:  # noqa: BLE001  # it must hold up this queue alone
            self._metrics.broker_failures.labels("commit").inc()
            log.debug("%s: the stored offset %d cannot be committed again: %s", work.queue,
                      offset, error)  # fmt: skip

    async def _persist(
        self, work: Work, what: str, attempt: Callable[[], Awaitable[Value]]
    ) -> Value:
        """Repeat an operation at a broker until it succeeds."""
        key = (work.queue, what)
        pauses = make_pauses(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                value = await attempt()
            except (OverError, MovedOnError):
                raise
            except Exception as error:  # noqa: BLE001  # it must hold up this queue alone
                self._metrics.broker_failures.labels(what).inc()
                self._brake.say(key, f"{work.queue}: {what} failed, trying again: {error}")
                await asyncio.sleep(next(pauses))
            else:
                self._brake.clear(key, f"{work.queue}: {what} works again")
                return value

    async def _ask(self, asked: Asked[MessageQueue]) -> None:
        terms = self._terms
        is_first = terms is None or asked.number == FIRST_NUMBER
        wait = 0.0 if is_first or terms is None else terms.poll
        seconds = FIRST_SECONDS if terms is None else 2 * terms.poll
        if not self._core.is_newest(asked):
            return
        try:
            answer = await self._coordinator.ask(asked, wait, seconds, pops=self._is_popping)
            queues = read_queues(answer.grants)
        except RefusedError as error:
            await self._hear_refusal(asked, error)
        except (NoAnswerError, AllocationError) as error:
            if not self._core.is_newest(asked):
                return
            self._metrics.refusals.labels("NoAnswer").inc()
            self._trouble = str(error)
            self._brake.say("coordinator", f"{error}; trying again")
            self._turn(lambda now: self._core.hear_failure(asked, now))
        else:
            self._hear(asked, answer, queues)

    def _hear(
        self, asked: Asked[MessageQueue], answer: MemberAnswer, queues: frozenset[MessageQueue]
    ) -> None:
        if not self._core.is_newest(asked):
            return
        self._brake.clear("coordinator", f"{self._coordinator.url} answers again")
        self._brake.clear("refusal", "the coordinator accepts this member")
        self._refusals = 0
        if self._source is None:
            self._source = answer.source
            self._open(answer.source)
        elif answer.source != self._source and not self._is_stopping:
            log.warning("the group's name servers, name, filters or balance have changed: "
                        "starting again")  # fmt: skip
            self._begin_to_stop()
        terms = Terms(answer.session_seconds, answer.drain_seconds, answer.on_outage)
        grants = Grants(answer.epoch, answer.revision, queues)
        self._terms = terms
        self._turn(lambda now: self._core.hear_answer(asked, grants, terms, now))

    def _open(self, source: GroupSource) -> None:
        if source.messages is None:
            self._brokers = self._open_brokers(source)
            if source.ordered is not None:
                self._core.pace = IN_ORDER
            if source.leftovers is not None and self._start_pops is not None:
                self._pops = self._start_pops(source, source.leftovers)
        elif self._start_pops is not None:
            self._pops = self._start_pops(source, source.messages)
        else:
            raise FollowerError(f"group {source.group!r} is balanced by message, but this program "
                                "reads by queue")  # fmt: skip

    async def _hear_refusal(self, asked: Asked[MessageQueue], error: RefusedError) -> None:
        core = self._core
        if not core.is_newest(asked):
            return
        self._metrics.refusals.labels(error.reason).inc()
        self._trouble = str(error)
        if error.reason == "Forbidden" and self._terms is None:
            raise FollowerError(
                f"the coordinator at {self._coordinator.url} refuses the token: {error}; "
                "see --token-file"
            ) from error
        if (
            error.reason == Denial.NO_SUCH_GROUP.value
            and self._pops is not None
            and not self._is_stopping
        ):
            log.warning("the group is gone: nothing is popped any more: %s", error)
            self._begin_to_stop()
        refusal = _BY_NAME.get(error.reason)
        if error.reason not in _PASSES:
            self._brake.say("refusal", self._describe_refusal(error))
        if refusal is None and error.reason not in _PASSES:
            self._refusals += 1
            await asyncio.sleep(min(MOST_REFUSED_PAUSE, 0.1 * 2 ** min(self._refusals, 10)))
        if refusal is None:
            self._turn(lambda now: core.hear_failure(asked, now))
        else:
            self._turn(lambda now: core.hear_refusal(asked, refusal, now))

    def _describe_refusal(self, error: RefusedError) -> str:
        if error.reason == Refusal.ANOTHER_SESSION.value:
            seconds = self._terms.session if self._terms else Terms().session
            return (
                f"another process is member {self._coordinator.member!r} of group "
                f"{self._coordinator.group} and is alive; this process waits until the other one "
                f"ends its session, or is silent for about {seconds:g} s: {error}"
            )
        return f"the coordinator refuses this member, trying again: {error}"

    def _note_asked(self, task: asyncio.Task[None]) -> None:
        """Stop the member if a task of the whole member has failed."""
        self._asking.discard(task)
        if not task.cancelled() and (error := task.exception()) and not self._over.done():
            self._over.set_exception(error)

    def _look(self) -> None:
        """Update the state of the whole member after a step."""
        if self._over.done():
            return
        core = self._core
        holds = core.holds
        for work in self._works.values():
            if core.is_leaving(work.queue):
                work.leaving.set()
        self._metrics.held.set(len(holds))
        self._metrics.stopped.set(len(self._halted))
        if self._session != core.session:
            if self._session and self._shown:
                log.warning(
                    "the session is over: no request was answered in time; given up: %s",
                    show_queues(self._shown),
                )
            if self._session and self._brokers is not None:
                self._brokers.reconnect()  # the network may have been cut, also to the brokers
            self._session = ""
        if core.is_live and not self._session:
            self._session, self._session_since = core.session, clock()
            self._metrics.sessions.inc()
            log.info("member %s of group %s: session began", self._coordinator.member,
                     self._coordinator.group)  # fmt: skip
        if holds != self._shown:
            noun = "queue" if len(holds) == 1 else "queues"
            log.info("holds %d %s: %s", len(holds), noun, show_queues(holds) or "none")
            self._shown = holds
        if self._is_stopping and not holds:
            self._leave_or_end()
        self._wake_at(core.find_next_change())

    def _leave_or_end(self) -> None:
        """End, or if leftovers are still handled, leave: others may read the queues meanwhile."""
        if self._pops is None:
            self._end()
        elif not self._is_popping and not self._has_left:
            self._has_left = True
            task = asyncio.create_task(self._leave())
            self._asking.add(task)
            task.add_done_callback(self._note_asked)

    def _wake_at(self, due: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due = None, due
        if due is not None and not self._over.done():
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, due - clock()), self._tick)

    def _session_age(self) -> float:
        return clock() - self._session_since if self._session else 0.0

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    async def _close(self) -> None:
        """Give up the work in progress, and end the session at the coordinator."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._over.done():  # `run` was cancelled
            self._over.cancel()
        for work in self._works.values():
            work.end()
        if self._pops is not None:
            await self._pops.close()
        asking = [*self._asking, *([self._ending] if self._ending else [])]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        if self._core.is_live:
            await self._leave()
        if self._brokers is not None:
            await self._brokers.close()
        self._metrics.held.set(0)

    async def _leave(self) -> None:
        """End the session at the coordinator."""
        try:
            await self._coordinator.leave(self._core.session)
        except (NoAnswerError, RefusedError) as error:
            log.warning("could not end the session at the coordinator: %s", error)
