"""
Lists the answers of a broker to a pull, as rules for a relay, and how readers must treat each.

Each row has its own topic with `MESSAGES` numbers in one queue of a real broker. Its rule changes
the answers to pulls at offsets below `TO`: either only the first few answers, or all of them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from mq_client import wire
from mq_client.frames import Frame
from mq_client.values import MessageQueue
from tests.answers import Answers, Asked, said

MESSAGES = 60
TO = 20
"""The next offset in answers that skip messages."""
MISSING = 7
"""The missing offset in rows in which only one message is missing."""
TIMES = 3
"""How often a temporary fault happens."""
PULLS, PULLS_A_SECOND = 60, 30
"""More pulls than these mean a busy loop."""


class Must(Enum):
    """What a reader must do."""

    READ = "give all rows"
    READ_OR_TELL = "give all rows, or an error that names the answer"
    TELL_LOSS = "an error that names the queue; where losses are allowed, the rows behind it"
    TELL = "an error that names the queue or the answer, losses allowed or not"


Change = Callable[[Asked, Frame], Frame]


@dataclass(frozen=True, slots=True)
class Row:
    """One changed answer, and how often it comes."""

    name: str
    change: Change
    must: Must
    times: int | None = TIMES
    """None means that the fault never ends."""


def plain(code: int, remark: str | None, next_offset: int | None = None) -> Change:
    """
    Answer with this code and remark, without messages.

    By default, the next offset is the requested offset.
    """

    def change(asked: Asked, answer: Frame) -> Frame:
        there = asked.offset if next_offset is None else next_offset
        return said(answer, code, remark, b"", next_offset=there)

    return change


def hidden(asked: Asked, answer: Frame) -> Frame:
    """Leave out the messages below `TO`, as a broker does after it has deleted them."""
    return _without(range(TO), answer)


def one_missing(asked: Asked, answer: Frame) -> Frame:
    """Leave out one message."""
    return _without(range(MISSING, MISSING + 1), answer)


def _without(offsets: range, answer: Frame) -> Frame:
    data = bytes(answer.body)
    left = [
        data[start:stop]
        for start, stop in pairwise([*wire.find_starts(data), len(data)])
        if wire.HEAD.unpack_from(data, start)[5] not in offsets
    ]
    return said(answer, body=b"".join(left))


def lasting(name: str, change: Change, must: Must) -> Row:
    """Make a row whose fault never ends."""
    return Row(f"{name} for ever", change, must, None)


_NEW, _MATCHED, _MOVED = 19, 20, 21
NOTHING_YET = [
    ("19 OFFSET_OVERFLOW_ONE", plain(_NEW, "OFFSET_OVERFLOW_ONE")),
    ("20 OFFSET_OVERFLOW_ONE", plain(_MATCHED, "OFFSET_OVERFLOW_ONE")),
    ("19 NO_MESSAGE_IN_QUEUE", plain(_NEW, "NO_MESSAGE_IN_QUEUE", 0)),
    ("21 NO_MESSAGE_IN_QUEUE", plain(_MOVED, "NO_MESSAGE_IN_QUEUE", 0)),
    ("19 NO_MATCHED_LOGIC_QUEUE", plain(_NEW, "NO_MATCHED_LOGIC_QUEUE", 0)),
    ("21 NO_MATCHED_LOGIC_QUEUE", plain(_MOVED, "NO_MATCHED_LOGIC_QUEUE", 0)),
    ("21 OFFSET_OVERFLOW_BADLY", plain(_MOVED, "OFFSET_OVERFLOW_BADLY", 0)),
    ("20 OFFSET_OVERFLOW_BADLY", plain(_MATCHED, "OFFSET_OVERFLOW_BADLY")),
    ("20 MESSAGE_WAS_REMOVING and no way on", plain(_MATCHED, "MESSAGE_WAS_REMOVING")),
    ("19 OFFSET_FOUND_NULL and no way on", plain(_NEW, "OFFSET_FOUND_NULL")),
    ("20 OFFSET_TOO_SMALL and no way on", plain(_MATCHED, "OFFSET_TOO_SMALL")),
]
LOSSES = [
    ("20 MESSAGE_WAS_REMOVING", plain(_MATCHED, "MESSAGE_WAS_REMOVING", TO)),
    ("19 OFFSET_FOUND_NULL", plain(_NEW, "OFFSET_FOUND_NULL", TO)),
    ("20 OFFSET_FOUND_NULL", plain(_MATCHED, "OFFSET_FOUND_NULL", TO)),
    ("21 OFFSET_TOO_SMALL", plain(_MOVED, "OFFSET_TOO_SMALL", TO)),
    ("20 NO_MATCHED_MESSAGE without a filter", plain(_MATCHED, "NO_MATCHED_MESSAGE", TO)),
    ("0 FOUND that starts further on", hidden),
    ("0 FOUND and no message", plain(0, "FOUND", TO)),
    ("0 FOUND without one of its messages", one_missing),
]
ROWS = [
    *(Row(name, change, Must.READ) for name, change in NOTHING_YET),
    *(Row(name, change, Must.TELL_LOSS, None) for name, change in LOSSES),
    Row("21 OFFSET_RESET forward", plain(_MOVED, "OFFSET_RESET", TO), Must.READ),
    Row("20 OFFSET_RESET forward", plain(_MATCHED, "OFFSET_RESET", TO), Must.READ),
    Row("21 OFFSET_RESET back", plain(_MOVED, "OFFSET_RESET", 0), Must.READ),
    Row("2 SYSTEM_BUSY", plain(2, "[PC_SYNCHRONIZED]broker busy"), Must.READ_OR_TELL),
    Row("17 TOPIC_NOT_EXIST", plain(17, "topic does not exist"), Must.READ_OR_TELL),
    lasting("1 SYSTEM_ERROR", plain(1, "store getMessage return null"), Must.TELL),
    lasting("16 NO_PERMISSION", plain(16, "the topic pulling message is forbidden"), Must.TELL),
    lasting("24 SUBSCRIPTION_NOT_EXIST", plain(24, "the subscription not exist"), Must.TELL),
    lasting("26 SUBSCRIPTION_GROUP_NOT_EXIST", plain(26, "subscription group"), Must.TELL),
    lasting("20 and an unknown remark", plain(_MATCHED, "HALF_A_MESSAGE", TO), Must.TELL),
    lasting("an unknown code", plain(4711, "something new"), Must.TELL),
    *(lasting(name, change, Must.TELL) for name, change in NOTHING_YET),
]


class Rules:
    """The rules of many topics at once, for readers that run concurrently."""

    def __init__(self, answers: Answers, rows: Iterable[tuple[str, Row]]) -> None:
        """Change answers from now on, by topic."""
        self._rows = dict(rows)
        self._left = {topic: row.times for topic, row in self._rows.items()}
        answers.after = self._after

    def _after(self, asked: Asked, answer: Frame) -> Frame:
        if not asked.is_pull or asked.offset >= TO:
            return answer
        topic = asked.queue.topic
        row, left = self._rows.get(topic), self._left.get(topic)
        if row is None or left == 0:
            return answer
        if left is not None:
            self._left[topic] = left - 1
        return row.change(asked, answer)


@dataclass(frozen=True, slots=True)
class Read:
    """The result of reading a row's topic."""

    numbers: list[int]
    """The numbers, in the order in which they came."""
    error: str | None
    pulls: int
    seconds: float


def complaint(row: Row, queue: MessageQueue, read: Read, *, may_lose: bool) -> str | None:
    """Say what a reader did wrong; None if it did nothing wrong."""
    if read.pulls > PULLS + PULLS_A_SECOND * read.seconds:
        return f"{row.name}: {read.pulls} pulls in {read.seconds:.1f} s"
    everything = list(range(MESSAGES))
    if read.error is None:
        wanted = everything
        if row.must is Must.TELL_LOSS and may_lose:
            lost = {MISSING} if row.change is one_missing else set(range(TO))
            wanted = [number for number in everything if number not in lost]
        elif row.must in (Must.TELL, Must.TELL_LOSS):
            return f"{row.name}: {len(read.numbers)} rows and no error"
        if read.numbers != wanted:
            return f"{row.name}: came {read.numbers}, wanted {wanted}"
        return None
    if row.must is Must.READ or (row.must is Must.TELL_LOSS and may_lose):
        return f"{row.name}: it must be read, and was not: {read.error}"
    if not any(word in read.error for word in (queue.topic, f"code {row.name.split()[0]}")):
        return f"{row.name}: the error names neither the queue nor the answer: {read.error}"
    return None
