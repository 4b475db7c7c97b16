"""
Grants the queues of one group, without I/O: the caller passes the time and sends the answers.

The published assignment names the owner of each queue: the member that *should* read it. This
module decides only which member *may read it now*. A queue that must move from member a to member b
goes through three states. The member in question confirms each state with its next request:

    granted to a  ->  leaving a: no longer in a's grants, but a may still hold it  ->  granted to b

Why no two members ever hold the same queue:

- A queue is granted only if no live session can still hold it. A session can hold a granted queue
  until a request says that the member has seen the withdrawal and no longer holds the queue.
- A session that has ended holds nothing. The coordinator counts a session as live for
  `Terms.session` after it *received* the last request. The member counts from when it *sent* that
  request, and subtracts a margin for clock drift. So the member stops first.
- If a newer request has overtaken a request, the older one has a lower number and is refused. So an
  old `holds` never replaces a newer one.
- A new leader knows no sessions, but members may still hold queues that an old leader granted. As
  long as a session with an old leader can last, the new leader grants a member only the queues that
  the member already holds. After that time, each member that holds a queue has sent a request to
  the new leader, or has stopped by its own clock. The coordinator has then *settled*.

If the owner of a queue has no live session, the queue is lent to another member: to the one that
holds the queue, otherwise to the one with the fewest grants. The assignment does not change. When
the owner has a session again, it gets the queue back.
"""

from collections.abc import Iterable, Mapping
from typing import Generic

from contract.following import FIRST_NUMBER, Asked, Grants, QueueT, Refusal, Terms
from coordinator.sessions import Ended, HeldQueues, Revoked, Session

REMEMBER_SESSIONS = 6.0
"""
How long an ended session is remembered, as a multiple of `Terms.session`.

A late request must not revive the session.
"""


class GroupCoordinator(Generic[QueueT]):
    """The sessions of one group while this process leads."""

    def __init__(self, terms: Terms, now: float, settle_seconds: float) -> None:
        """
        Begin to lead. No session and no assignment is known yet.

        `settle_seconds` is the longest session time that an older leader may have promised.
        """
        self._terms = terms
        self._now = now
        self._settled_at = now + settle_seconds
        self._is_settled = False
        self._epoch = -1
        self._owners: dict[QueueT, str] = {}
        self._owned: dict[str, list[QueueT]] = {}
        self._borrowers: frozenset[str] = frozenset()
        self._sessions: dict[str, Session[QueueT]] = {}
        """The live sessions by member. The session with the oldest last request comes first."""
        self._ended: dict[str, Ended] = {}
        """The last session of each member without a live one, in the order of their ends."""
        self._holders: dict[QueueT, set[str]] = {}
        """The members that may hold each queue: several only if a member's report was wrong."""
        self._unheld: set[QueueT] = set()
        """Queues that have an owner, but certainly no holder."""
        self._changed: set[str] = set()
        self._silent: list[str] = []
        self._releases: list[float] = []

    @property
    def epoch(self) -> int:
        """The epoch of the published assignment; -1 before the first one."""
        return self._epoch

    @property
    def is_settled(self) -> bool:
        """Whether each live member has sent a request since this process began to lead."""
        return self._is_settled

    @property
    def sessions(self) -> Mapping[str, Session[QueueT]]:
        """The live sessions by member."""
        return self._sessions

    def count_held(self) -> HeldQueues:
        """Count the sessions, and the queues in each state."""
        sessions = self._sessions.values()
        return HeldQueues(
            len(sessions),
            sum(len(each.grants) for each in sessions),
            sum(self._owners.get(queue) != each.member for each in sessions
                for queue in each.grants),
            sum(len(each.leaving) for each in sessions),
            len(self._unheld),
        )  # fmt: skip

    def take_silent(self) -> list[str]:
        """Return the members whose sessions have timed out since the last call, and forget them."""
        silent, self._silent = self._silent, []
        return silent

    def take_releases(self) -> list[float]:
        """Return how many seconds each release since the last call took, and forget them."""
        releases, self._releases = self._releases, []
        return releases

    def take_changed(self) -> set[str]:
        """Return the members whose answer has changed since the last call, and forget them."""
        changed, self._changed = self._changed, set()
        return changed

    def find_next_change(self) -> float | None:
        """Find the next time at which this coordinator settles or a session ends."""
        oldest = self._oldest()
        times = [] if self._is_settled else [self._settled_at]
        if oldest is not None:
            times.append(oldest.heard_at + self._terms.session)
        return min(times, default=None)

    def publish(
        self, epoch: int, owners: Mapping[QueueT, str], borrowers: Iterable[str], now: float
    ) -> None:
        """
        Follow an assignment. Ignore an assignment that is older than the current one.

        `borrowers` are the members to which queues of absent owners may be lent.
        """
        self.tick(now)
        if epoch < self._epoch:
            return
        self._epoch = epoch
        self._owners = dict(owners)
        self._owned = {}
        for queue, owner in owners.items():
            self._owned.setdefault(owner, []).append(queue)
        self._borrowers = frozenset(borrowers)
        self._unheld = self._owners.keys() - self._holders.keys()
        self._settle([*self._holders, *self._unheld])

    def lend(self, borrowers: Iterable[str], now: float) -> None:
        """Lend queues of absent owners to these members from now on. Leave lent queues in place."""
        self.tick(now)
        self._borrowers = frozenset(borrowers)
        self._settle([*self._unheld])

    def ask(self, member: str, asked: Asked[QueueT], now: float) -> Grants[QueueT] | Refusal:
        """Take a request of a member, and answer which queues the member may read."""
        self.tick(now)
        session = self._sessions.get(member)
        if session is None:
            return self._begin(member, asked)
        if session.id != asked.session:
            return Refusal.ANOTHER_SESSION
        if asked.number <= session.number:
            return Refusal.STALE
        if asked.revision > session.revision:
            return Refusal.UNKNOWN_REVISION
        self._release(session, asked)
        if session.is_overdue(now - self._terms.drain - self._terms.session):
            return Refusal.RELEASE_OVERDUE
        session.number = asked.number
        session.heard_at = now
        self._sessions[member] = self._sessions.pop(member)  # the newest comes last
        return self.answer(session)

    def answer(self, session: Session[QueueT]) -> Grants[QueueT]:
        """Return the queues that a session may read now."""
        return Grants(self._epoch, session.revision, frozenset(session.grants))

    def end(self, member: str, session: str | None, now: float) -> None:
        """End a session, at the member's request or because its process is known to have ended."""
        self.tick(now)
        found = self._sessions.get(member)
        if found is not None and session in (None, found.id):
            self._end(found)

    def tick(self, now: float) -> None:
        """Note the time. End the sessions that have timed out, and settle if this is due."""
        self._now = now
        while (oldest := self._oldest()) and now >= oldest.heard_at + self._terms.session:
            self._silent.append(oldest.member)
            self._end(oldest)
        while (first := next(iter(self._ended), None)) is not None:
            if now < self._ended[first].at + REMEMBER_SESSIONS * self._terms.session:
                break
            del self._ended[first]
        if not self._is_settled and now >= self._settled_at:
            self._is_settled = True
            self._settle([*self._holders, *self._unheld])

    def _begin(self, member: str, asked: Asked[QueueT]) -> Grants[QueueT] | Refusal:
        """
        Begin a session.

        Before this coordinator has settled, the session may have begun under an older leader, so
        the queues in the request are accepted as held. After that, each live session is known. So
        the request must then be the first one of a new session, and list no held queues.
        """
        ended = self._ended.get(member)
        is_new = asked.number == FIRST_NUMBER and not asked.holds
        if (ended and ended.session == asked.session) or (self._is_settled and not is_new):
            return Refusal.SESSION_OVER
        self._ended.pop(member, None)
        session = Session[QueueT](
            member, asked.session, self._now, asked.number, asked.revision, set(asked.holds)
        )
        self._sessions[member] = session
        for queue in asked.holds:
            self._add_holder(queue, member)
        self._settle([*self._owned.get(member, ()), *self._unheld])
        return self.answer(session)

    def _oldest(self) -> Session[QueueT] | None:
        return next(iter(self._sessions.values()), None)

    def _end(self, session: Session[QueueT]) -> None:
        member = session.member
        del self._sessions[member]
        self._ended.pop(member, None)
        self._ended[member] = Ended(session.id, self._now)
        self._changed.add(member)
        freed = [*session.grants, *session.leaving]
        self._releases += [self._now - each.at for each in session.leaving.values()]
        for queue in freed:
            self._drop_holder(queue, member)
        self._settle(freed)

    def _release(self, session: Session[QueueT], asked: Asked[QueueT]) -> None:
        """Release queues whose withdrawal the member has seen, and which it no longer holds."""
        released = [
            queue
            for queue, revoked in session.leaving.items()
            if revoked.revision <= asked.revision and queue not in asked.holds
        ]
        for queue in released:
            self._releases.append(self._now - session.leaving.pop(queue).at)
            self._drop_holder(queue, session.member)
        self._settle(released)

    def _settle(self, queues: Iterable[QueueT]) -> None:
        """Bring each of these queues one step closer to the member that should read it."""
        if not self._is_settled:
            return
        touched: set[str] = set()
        for queue in queues:
            reader = self._reader(queue)
            holders = self._holders.get(queue)
            if holders:
                for each in holders - {reader}:
                    if self._withdraw(queue, self._sessions[each]):
                        touched.add(each)
            elif reader is not None:
                self._sessions[reader].grants.add(queue)
                self._add_holder(queue, reader)
                touched.add(reader)
        for each in touched:
            self._sessions[each].revision += 1
        self._changed |= touched

    def _withdraw(self, queue: QueueT, session: Session[QueueT]) -> bool:
        """Take a queue out of a session's grants. The member may still hold the queue."""
        if queue not in session.grants:
            return False
        session.grants.remove(queue)
        session.leaving[queue] = Revoked(session.revision + 1, self._now)
        return True

    def _reader(self, queue: QueueT) -> str | None:
        """Find the member that should read a queue: its owner if present, otherwise a borrower."""
        owner = self._owners.get(queue)
        if owner is None or owner in self._sessions:
            return owner
        for each in self._holders.get(queue, ()):
            if each in self._borrowers and queue in self._sessions[each].grants:
                return each
        able = [each for each in self._sessions.values() if each.member in self._borrowers]
        found = min(able, key=lambda each: (len(each.grants), each.member), default=None)
        return found.member if found else None

    def _add_holder(self, queue: QueueT, member: str) -> None:
        self._holders.setdefault(queue, set()).add(member)
        self._unheld.discard(queue)

    def _drop_holder(self, queue: QueueT, member: str) -> None:
        holders = self._holders[queue]
        holders.remove(member)
        if not holders:
            del self._holders[queue]
            if queue in self._owners:
                self._unheld.add(queue)
