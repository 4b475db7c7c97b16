"""
Decides what a member that pops does with its messages, without I/O.

Messages that were popped together are cut into lots: a lot is what the handler gets in one call. A
lot is held from its pop until its messages are acknowledged, given back or put aside. While it is
held, nobody else gets its messages, because their invisible time is renewed.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from contract.following import PopTerms
from follower.popping.invisible_time import InvisibleTime
from mq_client.popping import MOST_POPPED, PoppedMessage

AHEAD_SECONDS = 0.5
"""How long the messages that wait in memory keep the handler busy. More would make others idle."""
RATE_SECONDS = 1.0
"""Time over which the handled messages are counted."""
LONGEST_BACKOFF = 2 * 3600.0
"""RocketMQ's consumers never wait for longer either."""


@dataclass(slots=True, eq=False)
class Lot:
    """Messages of one broker and topic that the handler gets in one call."""

    topic: str
    messages: Sequence[PoppedMessage]
    time: InvisibleTime

    @property
    def broker(self) -> str:
        """The broker that has the messages."""
        return self.messages[0].handle.broker

    @property
    def size(self) -> int:
        """The size of the bodies in bytes."""
        return sum(len(each.message.body) for each in self.messages)


@dataclass(slots=True)
class BrokerClock:
    """
    Finds out how old an answer is when this process reads it.

    A process that was frozen reads an answer late, and others may have its messages already. The
    answer has the time by the broker's clock, which may be ahead or behind. So the difference of
    both clocks is compared with the least difference so far, of an answer that was read at once. An
    answer is never older than the time since its request: this also limits the harm when the
    broker's clock jumps.
    """

    _least: float | None = None

    def find_age(self, popped_at: float, sent_at: float, now: float) -> float:
        """Find the age of an answer in seconds. `popped_at` is the time by the broker's clock."""
        difference, most = now - popped_at, now - sent_at
        if self._least is None or difference < self._least:
            self._least = difference
        elif difference - self._least > most:  # the broker's clock was set back
            self._least = difference - most
        return difference - self._least


@dataclass(slots=True)
class Lots:
    """All lots of one member."""

    terms: PopTerms
    calls: int
    """The maximum number of calls of the handler at the same time."""
    memory_bytes: int
    waiting: deque[Lot] = field(default_factory=deque)
    held: dict[Lot, None] = field(default_factory=dict)
    """All lots that are not settled yet, in the order in which they were popped."""
    waiting_messages: int = 0
    held_bytes: int = 0
    late_messages: int = 0
    """Messages that the handler did not get, because others may have got them."""
    _handled: int = 0
    _counted_since: float | None = None
    _rate: float = 0.0

    def count_held(self) -> int:
        """Count the messages that are not settled yet."""
        return sum(len(lot.messages) for lot in self.held)

    def find_room(self, now: float) -> int:
        """
        Find how many messages a pop may take now.

        Each call may have one lot that waits. A handler that is fast gets more messages in
        advance, but never more than it handles in `AHEAD_SECONDS`. A pop costs the broker about the
        same for one message as for many, so the next one waits until half of the room is free.
        """
        self._measure_rate(now)
        if self.held_bytes >= self.memory_bytes:
            return 0
        ahead = self.calls * self.terms.batch + int(self._rate * AHEAD_SECONDS)
        room = ahead - self.waiting_messages
        return min(MOST_POPPED, room) if 2 * room >= ahead else 0

    def take(self, topic: str, messages: Sequence[PoppedMessage], popped_at: float) -> None:
        """Take messages that were popped at this time, by the member's clock."""
        most = self.terms.batch
        for begin in range(0, len(messages), most):
            time = InvisibleTime(self.terms.invisible_seconds)
            time.count_from(popped_at)
            lot = Lot(topic, messages[begin : begin + most], time)
            self.held[lot] = None
            self.waiting.append(lot)
            self.waiting_messages += len(lot.messages)
            self.held_bytes += lot.size

    def begin_next(self, now: float) -> Lot | None:
        """Take the next lot for a call of the handler. None: no lot waits."""
        while self.waiting:
            lot = self.waiting.popleft()
            self.waiting_messages -= len(lot.messages)
            if not lot.time.is_late(now):
                return lot
            self.drop_late(lot)
        return None

    def drop_late(self, lot: Lot) -> None:
        """Drop a lot that others may have got."""
        self.late_messages += len(lot.messages)
        self._let_go(lot)

    def take_late(self) -> int:
        """Count the messages that were dropped since the last call."""
        late, self.late_messages = self.late_messages, 0
        return late

    def cut_singles(self, lot: Lot) -> list[Lot]:
        """Replace a lot by lots of one message, after the handler has failed with all of them."""
        self._let_go(lot)
        singles = [Lot(lot.topic, [each], replace(lot.time)) for each in lot.messages]
        self.held |= dict.fromkeys(singles)
        self.held_bytes += lot.size
        return singles

    def settle(self, lot: Lot, *, is_handled: bool) -> None:
        """Note that the member is done with a lot."""
        self._let_go(lot)
        self._handled += len(lot.messages) if is_handled else 0

    def give_back_waiting(self, now: float) -> list[Lot]:
        """Take all lots with which the handler has not begun, and that nobody else has got."""
        found = [lot for lot in self.waiting if not lot.time.is_over(now)]
        self.waiting.clear()
        self.waiting_messages = 0
        return found

    def begin_renewals(self, now: float) -> list[Lot]:
        """Take the lots whose invisible time must be renewed now. Soon they are due again."""
        due = [lot for lot in self.held if lot.time.renew_at <= now < lot.time.until]
        for lot in due:
            lot.time.renew_again(now)
        return due

    def find_next_renewal(self, now: float) -> float | None:
        """Find when the next lot is due; None if none will be."""
        times = (lot.time for lot in self.held)
        return min((each.renew_at for each in times if not each.is_over(now)), default=None)

    def find_backoff(self, message: PoppedMessage) -> float:
        """Find after how many seconds a message with which the handler has failed comes again."""
        return min(LONGEST_BACKOFF, self.terms.backoff_seconds * 2.0 ** min(message.attempt, 30))

    def _let_go(self, lot: Lot) -> None:
        if lot in self.held:
            del self.held[lot]
            self.held_bytes -= lot.size

    def _measure_rate(self, now: float) -> None:
        if self._counted_since is None:
            self._counted_since = now
        elif (passed := now - self._counted_since) >= RATE_SECONDS:
            self._rate = self._handled / passed
            self._handled, self._counted_since = 0, now
