"""
Decides what a member does, without I/O: the caller passes facts and the time, and gets actions.

The caller performs the actions concurrently and reports each result, after as many attempts as the
action needs. The core ignores results from earlier sessions. It also ignores the result of an
action on a queue that the member has given up in the meantime, even if the member holds the queue
again.

Rules:

- A member begins to hold a queue when it gets the answer that grants the queue. When it must
  release the queue, it still holds the queue until the messages in flight are finished and
  committed. Then it tells the coordinator at once.
- A new request replaces an older one that has no answer yet. Only the answer to the newest request
  counts.
- A member that is stopping takes no new queues, and finishes those that it has.
- When the session is over by the member's own clock, the member gives up all queues before it does
  anything else: it pulls, handles and commits nothing more. Then it begins a new session, in which
  it holds no queues.
- With `OnOutage.KEEP_READING`, the member instead continues to read the queues that it holds, until
  a coordinator answers.
"""

from collections.abc import Callable
from typing import Generic

from contract.following import FIRST_NUMBER, Asked, Grants, QueueT, Refusal, Terms
from contract.kinds.groups import OnOutage
from follower.actions import Abandon, Action, AskCoordinator, Locate
from follower.lease import SessionLease
from follower.pace import EACH_QUEUE, CommitPace
from follower.reading import QueueReading, SpanT

PAUSE_SECONDS = 0.5
"""Time between two requests while the coordinator refuses or does not answer."""
REPEAT_SECONDS = 5.0
"""
Time between two commits of a queue whose offset does not change.

A member checks its clock before it commits, but it may be frozen or cut off before its request
reaches the broker. Then the commit arrives late, when another member already holds the queue, and
the broker sets the offset back. So every member repeats the commits of its queues, as often as
RocketMQ's own client does. It repeats a queue's commit once more when it releases the queue.
"""


class FollowerCore(Generic[QueueT, SpanT]):
    """One member of one group."""

    def __init__(self, make_session: Callable[[], str], pace: CommitPace = EACH_QUEUE) -> None:
        """Hold nothing yet. `make_session` makes the random id of a new session."""
        self._make_session = make_session
        self.pace = pace
        self._begin_session()
        self._readings: dict[QueueT, QueueReading[QueueT, SpanT]] = {}
        self._lives = 0
        self._commit_at = 0.0
        self._repeat_at = 0.0
        self._is_stopping = False
        self._keeps_reading = False

    def _begin_session(self) -> None:
        self._session = self._make_session()
        self._lease = SessionLease()
        self._number = FIRST_NUMBER - 1
        self._revision = 0
        self._asked: Asked[QueueT] | None = None
        """The newest request. Only its answer counts."""
        self._sent_at = 0.0
        self._ask_at: float | None = 0.0
        """When to send the next request; None while an answer is awaited."""

    @property
    def session(self) -> str:
        """The id of the current session."""
        return self._session

    @property
    def holds(self) -> frozenset[QueueT]:
        """The queues that the member reads, and queues whose messages may still be in flight."""
        return frozenset(self._readings)

    @property
    def commit_at(self) -> float:
        """When the handled messages are committed next."""
        return self._commit_at

    @property
    def is_live(self) -> bool:
        """Whether the coordinator has answered a request of the session."""
        return self._lease.until is not None

    def has_session(self, now: float) -> bool:
        """Whether the session is not over yet, by the member's own clock."""
        return not self._lease.is_over(now)

    def may_act(self, now: float) -> bool:
        """Whether the member may still read the queues that it holds."""
        return self._keeps_reading or self.has_session(now)

    def is_newest(self, asked: Asked[QueueT]) -> bool:
        """Whether this is the newest request, so that its answer counts."""
        return asked is self._asked

    def is_leaving(self, queue: QueueT) -> bool:
        """Whether a queue must be released, so its handler should begin nothing new."""
        reading = self._readings.get(queue)
        return reading is not None and reading.is_leaving

    def find_next_change(self) -> float | None:
        """Find the next time at which `tick` has something to do; None if there is none."""
        times = [self._ask_at, None if self._keeps_reading else self._lease.until]
        times += [each.leave_by for each in self._readings.values()]
        if any(each.is_dirty for each in self._readings.values()):
            times.append(self._commit_at)
        if self._readings:
            times.append(max(self._commit_at, self._repeat_at))
        return min((each for each in times if each is not None), default=None)

    def tick(self, now: float) -> list[Action[QueueT, SpanT]]:
        """Do what is due at this time."""
        found = self._drop_if_over(now)
        for reading in list(self._readings.values()):
            if reading.leave_by is not None and now >= reading.leave_by:
                found += self._drop(reading)
                self._ask_at = now
        if now >= self._commit_at:
            self._commit_at = now + self.pace.find_seconds(len(self._readings))
            is_due = now >= self._repeat_at
            if is_due:
                self._repeat_at = now + REPEAT_SECONDS
            # If a member keeps reading without a session, another member may hold the queue too.
            is_again = is_due and self.has_session(now)
            for reading in self._readings.values():
                found += reading.commit(is_again)
        return found + self._ask_if_due(now)

    def hear_answer(
        self, asked: Asked[QueueT], grants: Grants[QueueT], terms: Terms, now: float
    ) -> list[Action[QueueT, SpanT]]:
        """Follow the grants of an answer."""
        found = self._drop_if_over(now)
        if asked is not self._asked:  # a newer request has replaced it, or a new session began
            return found + self._ask_if_due(now)
        self._keeps_reading = terms.on_outage is OnOutage.KEEP_READING
        self._lease.renew(self._sent_at, terms.session)
        self._ask_at = now
        if not self.has_session(now):  # the answer is late: other members may hold these queues
            return found + self.tick(now)
        self._revision = grants.revision
        new = frozenset() if self._is_stopping else grants.queues - self._readings.keys()
        found += [self._take(queue) for queue in new]
        for queue in self._readings.keys() - grants.queues:
            reading = self._readings[queue]
            if not reading.is_leaving:
                found += reading.leave(now + terms.drain, is_again=True)
                found += self._release_if_clear(reading, now)
        return found + self._ask_if_due(now)

    def hear_refusal(
        self, asked: Asked[QueueT], refusal: Refusal, now: float
    ) -> list[Action[QueueT, SpanT]]:
        """Ask again after a refusal, in a new session if the refusal requires one."""
        found = self._drop_if_over(now)
        if asked is not self._asked:
            return found + self._ask_if_due(now)
        is_replaced = refusal is Refusal.ANOTHER_SESSION and self._lease.is_over(now)
        if is_replaced or refusal in (Refusal.SESSION_OVER, Refusal.UNKNOWN_REVISION):
            found += self._drop_all()
            self._begin_session()
        self._ask_at = now + PAUSE_SECONDS
        return found

    def hear_failure(self, asked: Asked[QueueT], now: float) -> list[Action[QueueT, SpanT]]:
        """Ask again soon: the request got no answer."""
        found = self._drop_if_over(now)
        if asked is self._asked:
            self._ask_at = now + PAUSE_SECONDS
        return found

    def note_begin(
        self, queue: QueueT, life: int, offset: int, now: float
    ) -> list[Action[QueueT, SpanT]]:
        """Begin to read a queue at this offset."""
        return self._progress(queue, life, now, lambda reading: reading.locate(offset))

    def note_batch(
        self, queue: QueueT, life: int, batch: SpanT | None, now: float
    ) -> list[Action[QueueT, SpanT]]:
        """Take the batch that a pull returned. None: the pull has returned none."""
        return self._progress(queue, life, now, lambda reading: reading.take(batch))

    def note_handled(
        self, queue: QueueT, life: int, stop: int, now: float
    ) -> list[Action[QueueT, SpanT]]:
        """Note that the handler has finished everything below `stop`."""
        return self._progress(queue, life, now, lambda reading: reading.finish(stop))

    def note_halt(
        self, queue: QueueT, life: int, stop: int, now: float
    ) -> list[Action[QueueT, SpanT]]:
        """Stop reading a queue: the handler gave up, and everything below `stop` is finished."""
        return self._progress(queue, life, now, lambda reading: reading.halt(stop))

    def note_moved_on(self, queue: QueueT, life: int, now: float) -> list[Action[QueueT, SpanT]]:
        """Begin again with a queue: its stored position is not where this member left it."""
        found = self._drop_if_over(now)
        reading = self._readings.get(queue)
        if reading is not None and reading.life == life:
            found += self._drop(reading)
            if reading.is_leaving:
                self._ask_at = now
            else:
                found.append(self._take(queue))
        return found + self._ask_if_due(now)

    def note_commit(
        self, queue: QueueT, life: int, offset: int, now: float
    ) -> list[Action[QueueT, SpanT]]:
        """Note that an offset is stored."""
        return self._progress(queue, life, now, lambda reading: reading.note_commit(offset))

    def stop(self, drain_seconds: float, now: float) -> list[Action[QueueT, SpanT]]:
        """Finish what the handler has begun. As soon as `holds` is empty, the session can end."""
        found = self._drop_if_over(now)
        self._is_stopping = True
        for reading in list(self._readings.values()):
            if not reading.is_leaving:
                found += reading.leave(now + drain_seconds, self.has_session(now))
                found += self._release_if_clear(reading, now)
        return found + self._ask_if_due(now)

    def _progress(
        self,
        queue: QueueT,
        life: int,
        now: float,
        step: Callable[[QueueReading[QueueT, SpanT]], list[Action[QueueT, SpanT]]],
    ) -> list[Action[QueueT, SpanT]]:
        found = self._drop_if_over(now)
        reading = self._readings.get(queue)
        if reading is not None and reading.life == life:
            found += step(reading)
            found += self._release_if_clear(reading, now)
        return found + self._ask_if_due(now)

    def _take(self, queue: QueueT) -> Action[QueueT, SpanT]:
        """Begin to hold a queue."""
        self._lives += 1
        self._readings[queue] = QueueReading(queue, self._lives, self.pace)
        return Locate(queue, self._lives)

    def _release_if_clear(
        self, reading: QueueReading[QueueT, SpanT], now: float
    ) -> list[Action[QueueT, SpanT]]:
        """Release a queue that must be released, if no work on it is in progress any more."""
        if not (reading.is_leaving and reading.is_clear):
            return []
        self._ask_at = now
        return self._drop(reading)

    def _ask_if_due(self, now: float) -> list[Action[QueueT, SpanT]]:
        if self._ask_at is None or now < self._ask_at:
            return []
        if self._is_stopping and not self._readings:
            self._ask_at = None
            return []
        self._number += 1
        self._sent_at = now
        self._ask_at = None
        self._asked = Asked(self._session, self._number, self._revision, self.holds)
        return [AskCoordinator(self._asked)]

    def _drop_if_over(self, now: float) -> list[Action[QueueT, SpanT]]:
        """Give up all queues if the session is over: other members may begin to read them."""
        if self.may_act(now):
            return []
        found = self._drop_all()
        self._begin_session()
        self._ask_at = now
        return found

    def _drop_all(self) -> list[Action[QueueT, SpanT]]:
        return [
            action for reading in list(self._readings.values()) for action in self._drop(reading)
        ]

    def _drop(self, reading: QueueReading[QueueT, SpanT]) -> list[Action[QueueT, SpanT]]:
        del self._readings[reading.queue]
        return [Abandon(reading.queue, reading.life)]
