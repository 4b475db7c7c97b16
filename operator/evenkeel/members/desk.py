"""
Coordinates one group, and keeps the requests of its members that wait for an answer.

The core, `GroupCoordinator`, has no clock and never waits. The desk adds both. Everything runs on
one event loop. While the machine sleeps, the coordinator's clock stops, so sessions last longer
than needed. This is safe, because members stop by their own clocks.
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from contract.following import Asked, Grants, Refusal, Terms
from coordinator.group import GroupCoordinator
from coordinator.sessions import HeldQueues
from evenkeel.members.doors import DeniedError
from mq_client.values import MessageQueue

Answer = Grants[MessageQueue] | Refusal
Clock = Callable[[], float]
CONFIRM_SECONDS = 0.5
"""A live member always has a request that waits, or sends a request within this time."""
LISTED_SECONDS = 180.0
"""
How long brokers may still list a client after the last request of its member: they close a
connection that has been silent for 120 s, and check every 10 s.
"""


@dataclass(slots=True)
class _Life:
    """What is known about the process behind a session."""

    session: str
    begun_at: datetime
    quiet_since: float
    """When the last request arrived. If that request waited, when it was answered or given up."""
    share: float = 1.0
    """
    The fraction of the poll time for which the next request waits.

    In a new session, and after an answer that has changed, this fraction is random. Many members
    get such answers at the same time. Without a random wait, all their polls would end at the same
    time from then on, and other answers would be late.
    """
    may_pop: bool = False
    """Whether the process may pop messages, by its last request and the answers since then."""


def _choose_share() -> float:
    return random.uniform(0.1, 1.0)  # noqa: S311 nothing secret


class GroupDesk:
    """Answers the members of one group for as long as this process leads."""

    def __init__(
        self,
        terms: Terms,
        settle_seconds: float,
        members_changed: Callable[[], None],
        clock: Clock = time.monotonic,
    ) -> None:
        """Begin to coordinate. `members_changed` is called when a session begins or ends."""
        self.terms = terms
        self._clock = clock
        self._core: GroupCoordinator[MessageQueue] = GroupCoordinator(
            terms, clock(), settle_seconds
        )
        self._members_changed = members_changed
        self.held_changed: Callable[[], None] = lambda: None
        """Called when `held` has changed, or a member has begun popping or stopped popping."""
        self.member_silent: Callable[[str], None] = lambda member: None
        """Called when a session has ended because its member sent no request in time."""
        self.queue_released: Callable[[float], None] = lambda seconds: None
        """Called when a withdrawn queue is free, with the seconds since its withdrawal."""
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._lives: dict[str, _Life] = {}
        """The process behind each live session, by member."""
        self.held: HeldQueues | None = None
        """How many queues are granted, lent, leaving and waiting; None until this is known."""
        self._client_ids: dict[str, float] = {}
        """The client ids that members have sent, and when each was received last."""
        self._suspected: dict[str, asyncio.TimerHandle] = {}
        self._known: set[str] | None = None
        """The members that have a session; None until all live members are known."""
        self._timer: asyncio.TimerHandle | None = None
        self._schedule()

    @property
    def live(self) -> Mapping[str, datetime]:
        """The members that have a session, sorted, and when each session began."""
        return {member: self._lives[member].begun_at for member in sorted(self._core.sessions)}

    @property
    def is_settled(self) -> bool:
        """Whether each live member has sent a request since this process began to lead."""
        return self._core.is_settled

    @property
    def poppers(self) -> frozenset[str] | None:
        """The live members that may pop messages; None until all live members are known."""
        if not self.is_settled:
            return None
        return frozenset(member for member, life in self._lives.items() if life.may_pop)

    def announce_pops(self) -> None:
        """
        Answer all requests that wait, because the answers now say something else about pops.

        From now on, each member counts as popping until its next request says otherwise, because
        an earlier answer may have told it to pop.
        """
        for life in self._lives.values():
            life.may_pop, life.share = True, _choose_share()
        for member in list(self._waiting):
            self._dismiss(member, self._core.answer(self._core.sessions[member]))

    def list_client_ids(self) -> frozenset[str]:
        """List the client ids under which brokers may list members."""
        since = self._clock() - LISTED_SECONDS
        self._client_ids = {each: at for each, at in self._client_ids.items() if at > since}
        return frozenset(self._client_ids)

    def publish(self, epoch: int, owners: Mapping[MessageQueue, str], able: Sequence[str]) -> None:
        """Follow an assignment; `able` are the members that may borrow queues."""
        self._core.publish(epoch, owners, able, self._clock())
        self._tell()
        if self.is_settled:
            self._note_held()  # owners may change although grants do not

    def lend(self, able: Sequence[str]) -> None:
        """Lend queues of absent owners to these members from now on."""
        self._core.lend(able, self._clock())
        self._tell()

    async def ask(
        self,
        member: str,
        asked: Asked[MessageQueue],
        wait_seconds: float,
        client_id: str = "",
        *,
        pops: bool = False,
    ) -> Answer:
        """Answer at once if the member's grants have changed, or wait for a change or a timeout."""
        answer = self._core.ask(member, asked, self._clock())
        if isinstance(answer, Refusal):
            self._tell()
            return answer
        life = self._note_life(member, asked.session)
        self._note_pops(life, pops=pops)
        if client_id:
            self._client_ids[client_id] = self._clock()
        self._tell()
        self._dismiss(member, Refusal.STALE)
        session = self._core.sessions[member]
        if session.revision != asked.revision or wait_seconds <= 0:
            return self._core.answer(session)
        wait, life.share = life.share * min(wait_seconds, self.terms.poll), 1.0
        news: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[member] = news
        try:
            async with asyncio.timeout(wait):
                return await news
        except TimeoutError:
            return self._core.answer(session)
        finally:
            if self._waiting.get(member) is news:
                del self._waiting[member]
            life.quiet_since = self._clock()

    def _note_life(self, member: str, session: str) -> _Life:
        life = self._lives.get(member)
        if life is None or life.session != session:
            life = self._lives[member] = _Life(session, datetime.now(UTC), 0.0, _choose_share())
        life.quiet_since = self._clock()
        return life

    def _note_pops(self, life: _Life, *, pops: bool) -> None:
        if life.may_pop != pops:
            life.may_pop = pops
            self.held_changed()

    def leave(self, member: str, session: str) -> None:
        """End a session at the request of its member."""
        self._core.end(member, session, self._clock())
        self._tell()

    def end(self, member: str) -> None:
        """End the session of a member whose process is known to have ended."""
        self._core.end(member, None, self._clock())
        self._tell()

    def suspect(self, member: str, ended_at: datetime) -> None:
        """
        End the session of a member if it belongs to a process that ended at `ended_at`.

        The session may belong to the successor of this process, and clocks of machines differ. So
        two things are checked: the session must have begun before `ended_at`, and it must have been
        silent for a while. A process that has ended has no request that waits, because its
        connections are closed.
        """
        life = self._lives.get(member)
        if life is None or life.begun_at >= ended_at or member in self._suspected:
            return
        self._confirm_later(member, life, self._clock())

    def _confirm_later(self, member: str, life: _Life, suspected_at: float) -> None:
        now = self._clock()
        quiet_since = now if member in self._waiting else life.quiet_since
        self._suspected[member] = asyncio.get_running_loop().call_later(
            max(0.0, quiet_since + CONFIRM_SECONDS - now),
            self._confirm, member, life, suspected_at,
        )  # fmt: skip

    def _confirm(self, member: str, life: _Life, suspected_at: float) -> None:
        """End the session of a suspected member that has been quiet for long enough."""
        del self._suspected[member]
        if self._lives.get(member) is not life or member in self._waiting:
            return
        if self._core.sessions[member].heard_at > suspected_at:
            return
        if self._clock() - life.quiet_since < CONFIRM_SECONDS:  # its last request ended later
            self._confirm_later(member, life, suspected_at)
        else:
            self.end(member)

    def close(self, why: DeniedError) -> None:
        """Stop coordinating, and raise `why` in all requests that wait."""
        for timer in (self._timer, *self._suspected.values()):
            if timer is not None:
                timer.cancel()
        for each in self._waiting.values():
            if not each.done():
                each.set_exception(why)

    def _tell(self) -> None:
        """Answer the members whose grants have changed, and report all other changes."""
        changed, releases = self._core.take_changed(), self._core.take_releases()
        for member in changed:
            session = self._core.sessions.get(member)
            if session is None:
                self._lives.pop(member, None)
            else:
                self._lives[member].share = _choose_share()
            self._dismiss(member, self._core.answer(session) if session else Refusal.SESSION_OVER)
        for seconds in releases:
            self.queue_released(seconds)
        for member in self._core.take_silent():
            self.member_silent(member)
        if self.is_settled:
            live = set(self._core.sessions)
            has_changed = bool(changed or releases) or live != self._known
            self._note_members(live)
            if has_changed:
                self._note_held()
        self._schedule()

    def _note_members(self, live: set[str]) -> None:
        if live == self._known:
            return
        self._known = live
        self._members_changed()

    def _note_held(self) -> None:
        held = self._core.count_held()
        if held != self.held:
            self.held = held
            self.held_changed()

    def _dismiss(self, member: str, answer: Answer) -> None:
        news = self._waiting.pop(member, None)
        if news is not None and not news.done():
            news.set_result(answer)

    def _schedule(self) -> None:
        """Call `_tick` when time alone changes something."""
        if self._timer is not None:
            self._timer.cancel()
        at = self._core.find_next_change()
        seconds = 0.0 if at is None else max(0.0, at - self._clock())
        loop = asyncio.get_running_loop()
        self._timer = None if at is None else loop.call_later(seconds, self._tick)

    def _tick(self) -> None:
        self._core.tick(self._clock())
        self._tell()
