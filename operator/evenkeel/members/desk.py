"""
The coordinator of one group with the members that wait for news.

It carries the time and the waiting, which the core does not know. All of it runs on one event loop.
While the machine sleeps the coordinator's clock stands still, so sessions last longer than needed;
that is safe, for members stop by clocks of their own.
"""

import asyncio
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
"""A member that lives has a request that waits, or sends one, within this time."""
LISTED_SECONDS = 180.0
"""
Brokers may list a client for so long after its member was heard last: they close a connection that
has been silent for 120 s, and look every 10 s.
"""


@dataclass(slots=True)
class _Life:
    """What is known of the process behind a session."""

    session: str
    begun_at: datetime
    quiet_since: float
    """When its last request came or, if that one waited, when it was answered or given up."""


class GroupDesk:
    """Answers the members of one group for as long as this process leads."""

    def __init__(
        self,
        terms: Terms,
        settle_seconds: float,
        members_changed: Callable[[], None],
        clock: Clock = time.monotonic,
    ) -> None:
        """Begin to lead. `members_changed` is called when a session begins or ends."""
        self.terms = terms
        self._clock = clock
        self._core: GroupCoordinator[MessageQueue] = GroupCoordinator(
            terms, clock(), settle_seconds
        )
        self._members_changed = members_changed
        self.held_changed: Callable[[], None] = lambda: None
        """Called when other queues are lent, on their way, or waiting than before."""
        self.member_silent: Callable[[str], None] = lambda member: None
        """Called when a session has ended because its member said nothing."""
        self.queue_released: Callable[[float], None] = lambda seconds: None
        """Called when a queue that was taken from a member is free, after this time."""
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._lives: dict[str, _Life] = {}
        """The process behind each live session, by member."""
        self.held: HeldQueues | None = None
        """Where queues are; None until that is known."""
        self._client_ids: dict[str, float] = {}
        """The ids at the brokers that members have told, and when they were heard last."""
        self._suspected: dict[str, asyncio.TimerHandle] = {}
        self._known: set[str] | None = None
        """The members that live; None until that is known."""
        self._timer: asyncio.TimerHandle | None = None
        self._schedule()

    @property
    def live(self) -> Mapping[str, datetime]:
        """The members that have a session, in order, and when it began."""
        return {member: self._lives[member].begun_at for member in sorted(self._core.sessions)}

    @property
    def is_settled(self) -> bool:
        """Whether all members that live have been heard since the lead began."""
        return self._core.is_settled

    def list_client_ids(self) -> frozenset[str]:
        """List the ids by which brokers may know members."""
        since = self._clock() - LISTED_SECONDS
        self._client_ids = {each: at for each, at in self._client_ids.items() if at > since}
        return frozenset(self._client_ids)

    def publish(self, epoch: int, owners: Mapping[MessageQueue, str], able: Sequence[str]) -> None:
        """Follow an assignment; `able` are the members that may borrow queues."""
        self._core.publish(epoch, owners, able, self._clock())
        self._tell()
        if self.is_settled:
            self._note_held()  # queues may have other owners, or need one, and all grants stay

    def lend(self, able: Sequence[str]) -> None:
        """Lend queues of absent owners to these members from now on."""
        self._core.lend(able, self._clock())
        self._tell()

    async def ask(
        self, member: str, asked: Asked[MessageQueue], wait_seconds: float, client_id: str = ""
    ) -> Answer:
        """Answer a member at once if there is news, otherwise after a while."""
        answer = self._core.ask(member, asked, self._clock())
        if isinstance(answer, Refusal):
            self._tell()
            return answer
        life = self._note_life(member, asked.session)
        if client_id:
            self._client_ids[client_id] = self._clock()
        self._tell()
        self._dismiss(member, Refusal.STALE)
        session = self._core.sessions[member]
        if session.revision != asked.revision or wait_seconds <= 0:
            return self._core.answer(session)
        news: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[member] = news
        try:
            async with asyncio.timeout(min(wait_seconds, self.terms.poll)):
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
            life = self._lives[member] = _Life(session, datetime.now(UTC), 0.0)
        life.quiet_since = self._clock()
        return life

    def leave(self, member: str, session: str) -> None:
        """End a session whose member says good-bye."""
        self._core.end(member, session, self._clock())
        self._tell()

    def end(self, member: str) -> None:
        """End the session of a member whose process is known to have ended."""
        self._core.end(member, None, self._clock())
        self._tell()

    def suspect(self, member: str, ended_at: datetime) -> None:
        """
        End the session of a member if it is of a process that has ended by this time.

        Its successor may have begun a session of its own by now, and clocks of machines differ. So
        it is looked at twice: it must have begun before that time, and must have said nothing for a
        while. A process that is gone has no request that waits, because its connections are closed.
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
        if self._clock() - life.quiet_since < CONFIRM_SECONDS:  # its connection was closed later
            self._confirm_later(member, life, suspected_at)
        else:
            self.end(member)

    def close(self, why: DeniedError) -> None:
        """Stop to coordinate; tell whoever waits why."""
        for timer in (self._timer, *self._suspected.values()):
            if timer is not None:
                timer.cancel()
        for each in self._waiting.values():
            if not each.done():
                each.set_exception(why)

    def _tell(self) -> None:
        """Answer the members with news, and say what else has changed."""
        changed, releases = self._core.take_changed(), self._core.take_releases()
        for member in changed:
            session = self._core.sessions.get(member)
            if session is None:
                self._lives.pop(member, None)
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
        """Come back when time alone changes something."""
        if self._timer is not None:
            self._timer.cancel()
        at = self._core.find_next_change()
        seconds = 0.0 if at is None else max(0.0, at - self._clock())
        loop = asyncio.get_running_loop()
        self._timer = None if at is None else loop.call_later(seconds, self._tick)

    def _tick(self) -> None:
        self._core.tick(self._clock())
        self._tell()
