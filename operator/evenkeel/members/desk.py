"""
The coordinator of one group with the members that wait for news.

It carries the time and the waiting, which the core does not know. All of it runs on one event loop.
While the machine sleeps the coordinator's clock stands still, so sessions last longer than needed;
that is safe, for members stop by clocks of their own.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from contract.following import Asked, Grants, Refusal, Terms
from coordinator.group import REMEMBER_SESSIONS, GroupCoordinator
from mq_client.values import MessageQueue

Answer = Grants[MessageQueue] | Refusal
Clock = Callable[[], float]


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
        self._began_at = clock()
        self._core: GroupCoordinator[MessageQueue] = GroupCoordinator(
            terms, self._began_at, settle_seconds
        )
        self._members_changed = members_changed
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._ended_at: dict[str, float] = {}
        """When the last session of a member ended that has none now; see `_forget_strangers`."""
        self._known: set[str] | None = None
        """The members that live; None until that is known."""
        self._timer: asyncio.TimerHandle | None = None
        self._schedule()

    @property
    def live(self) -> Sequence[str]:
        """The members that have a session."""
        return sorted(self._core.sessions)

    @property
    def is_settled(self) -> bool:
        """Whether all members that live have been heard since the lead began."""
        return self._core.is_settled

    def measure_absence(self, member: str) -> float:
        """How long a member has had no session."""
        return self._clock() - self._ended_at.get(member, self._began_at)

    def publish(self, epoch: int, owners: Mapping[MessageQueue, str], able: Sequence[str]) -> None:
        """Follow an assignment; `able` are the members that may borrow queues."""
        self._core.publish(epoch, owners, able, self._clock())
        self._forget_strangers({*owners.values(), *able})
        self._tell()

    async def ask(self, member: str, asked: Asked[MessageQueue], wait_seconds: float) -> Answer:
        """Answer a member at once if there is news, otherwise after a while."""
        answer = self._core.ask(member, asked, self._clock())
        self._tell()
        if isinstance(answer, Refusal):
            return answer
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

    def leave(self, member: str, session: str) -> None:
        """End a session whose member says good-bye."""
        self._core.end(member, session, self._clock())
        self._tell()

    def close(self) -> None:
        """Stop to lead: whoever waits hears nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        for each in self._waiting.values():
            each.cancel()

    def _tell(self) -> None:
        """Answer the members with news, and say if members came or went."""
        for member in self._core.take_changed():
            session = self._core.sessions.get(member)
            self._dismiss(member, self._core.answer(session) if session else Refusal.SESSION_OVER)
        if self.is_settled:
            self._note_members(set(self._core.sessions))
        self._schedule()

    def _note_members(self, live: set[str]) -> None:
        if live == self._known:
            return
        self._ended_at |= dict.fromkeys((self._known or set()) - live, self._clock())
        for member in live:
            self._ended_at.pop(member, None)
        self._known = live
        self._members_changed()

    def _forget_strangers(self, named: set[str]) -> None:
        """
        Forget when members ended that the assignment does not name: they may never come back.

        What ended a moment ago may be named by the next assignment.
        """
        recent = self._clock() - REMEMBER_SESSIONS * self.terms.session
        self._ended_at = {
            member: at for member, at in self._ended_at.items() if member in named or at > recent
        }

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
