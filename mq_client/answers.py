"""
What each answer to a pull means for somebody who reads a queue in order.

An answer's code tells little: RocketMQ's own client takes 20 for "go on", though it may stand for
deleted messages. The remark names the broker's `GetMessageStatus` and tells them apart. `MEANINGS`
has all that the sources of RocketMQ 4.9 and 5.x can say: `DefaultMessageStore.getMessage` makes the
status and the next offset, `PullMessageProcessor` and its result handler the code. A slave answers
20 where its master would answer 19 or 21, and leaves the next offset as it was asked for. What is
not in the table is an error: guessing would lose messages in silence.

With all messages wanted, an answer is checked against its own body: what lies between the offset
asked for and the next one is either there or gone, whatever the broker calls it.
"""

import struct
from dataclasses import dataclass, field
from enum import Enum
from struct import Struct
from typing import NamedTuple

from mq_client import errors, messages, wire
from mq_client.filters import Filter
from mq_client.values import MessageQueue, Pulled, PullStatus


class Meaning(Enum):
    """What a reader does next."""

    MESSAGES = "take them, and go on behind them"
    PASSED_OVER = "nothing up to the next offset passes the filter: go on there"
    GONE = "nothing up to the next offset can be read any more: an error, or a gap on record"
    NOTHING_YET = "the queue ends here: ask again later"
    BEYOND_END = "this broker's queue ends before the offset asked for: it lags, or was made anew"
    HELD = "the offset exists, and neither a message nor a way on is given: ask again later"
    RESET = "somebody set the group's offset; whoever keeps offsets of his own asks again"


_FOUND, _NEW, _MATCHED, _MOVED = PullStatus

MEANINGS: dict[tuple[PullStatus, str | None], Meaning] = {
    # Also where messages at the beginning, in between or at the end could not be read.
    (_FOUND, "FOUND"): Meaning.MESSAGES,
    # Asked for the queue's end; a 20 comes from a slave whose master is there.
    (_NEW, "OFFSET_OVERFLOW_ONE"): Meaning.NOTHING_YET,
    (_MATCHED, "OFFSET_OVERFLOW_ONE"): Meaning.NOTHING_YET,
    # Nothing was ever written; 19 where 0 was asked for, 21 else.
    (_NEW, "NO_MESSAGE_IN_QUEUE"): Meaning.NOTHING_YET,
    (_MOVED, "NO_MESSAGE_IN_QUEUE"): Meaning.BEYOND_END,
    (_MATCHED, "NO_MESSAGE_IN_QUEUE"): Meaning.BEYOND_END,
    # There is no such consume queue. Stores of 5.x make one, those of 4.9 and tiered ones may not.
    (_NEW, "NO_MATCHED_LOGIC_QUEUE"): Meaning.NOTHING_YET,
    (_MOVED, "NO_MATCHED_LOGIC_QUEUE"): Meaning.BEYOND_END,
    (_MATCHED, "NO_MATCHED_LOGIC_QUEUE"): Meaning.BEYOND_END,
    # The index file of these offsets is missing; the next offset is where the next file begins.
    (_NEW, "OFFSET_FOUND_NULL"): Meaning.GONE,
    (_MATCHED, "OFFSET_FOUND_NULL"): Meaning.GONE,
    # The filter refused all. With no filter: a hole in the index, or an index that cannot be read.
    (_MATCHED, "NO_MATCHED_MESSAGE"): Meaning.PASSED_OVER,
    # The commit-log file is deleted, and the queue's minimum is not corrected yet (10 s, or more).
    (_MATCHED, "MESSAGE_WAS_REMOVING"): Meaning.GONE,
    # Before the queue's minimum, which is the next offset. A slave gives 20 and no next offset.
    (_MOVED, "OFFSET_TOO_SMALL"): Meaning.GONE,
    (_MATCHED, "OFFSET_TOO_SMALL"): Meaning.GONE,
    # Behind the queue's maximum, which is the next offset. A slave as above.
    (_MOVED, "OFFSET_OVERFLOW_BADLY"): Meaning.BEYOND_END,
    (_MATCHED, "OFFSET_OVERFLOW_BADLY"): Meaning.BEYOND_END,
    # An administrator's reset (5.0 and later, `useServerSideResetOffset`) waits for the group's
    # next pull, whose answer takes it away: the pull after that is answered as ever.
    (_MOVED, "OFFSET_RESET"): Meaning.RESET,
    (_MATCHED, "OFFSET_RESET"): Meaning.RESET,
    # Without a remark, as a static topic's rewritten answers are: the offsets have to do.
    (_FOUND, None): Meaning.MESSAGES,
    (_NEW, None): Meaning.NOTHING_YET,
    (_MATCHED, None): Meaning.PASSED_OVER,
    (_MOVED, None): Meaning.GONE,
}


class UnknownAnswerError(errors.ProtocolError):
    """A broker answered a pull with a code and remark that are not in the table."""


@dataclass(frozen=True, slots=True)
class Answer:
    """
    One answer, read: it is about the offsets from the one asked for up to, without, `stop`.

    `body` ends where the offsets in it stop to follow one another.
    """

    meaning: Meaning
    stop: int
    pulled: Pulled = field(repr=False)
    body: bytes | memoryview = field(default=b"", repr=False)


def read(pulled: Pulled, queue: MessageQueue, asked: int, wanted: Filter) -> Answer:
    """Tell what an answer means for a reader that asked from this offset on."""
    try:
        meaning = MEANINGS[pulled.status, pulled.remark]
    except KeyError:
        raise UnknownAnswerError(
            f"{queue} from offset {asked}: the broker answered code {pulled.status.value} with "
            f"the remark {pulled.remark!r}, which no known RocketMQ does: nothing was read"
        ) from None
    stop = pulled.next_offset
    if meaning is Meaning.GONE and pulled.remark is None and stop < asked:
        meaning = Meaning.BEYOND_END
    if pulled.status is PullStatus.NOTHING_NEW:  # there may be no next index file yet
        stop = min(stop, pulled.max_offset)
    if meaning in (Meaning.NOTHING_YET, Meaning.BEYOND_END, Meaning.RESET):
        return Answer(meaning, asked, pulled)
    if stop <= asked:
        return Answer(Meaning.HELD, asked, pulled)
    if meaning is Meaning.GONE or (meaning is Meaning.PASSED_OVER and wanted.is_everything):
        return Answer(Meaning.GONE, stop, pulled)
    if wanted.is_everything:
        return _checked(pulled, queue, asked)
    if asked < pulled.min_offset:  # a filter hides which offsets are missing, but not this
        return Answer(Meaning.GONE, min(stop, pulled.min_offset), pulled)
    return Answer(meaning, stop, pulled, pulled.body)


def _checked(pulled: Pulled, queue: MessageQueue, asked: int) -> Answer:
    """Compare messages with the offsets that they are said to be all of."""
    try:
        run = _first_run(pulled.body, queue, asked)
    except _UnreadableError:
        return Answer(Meaning.MESSAGES, pulled.next_offset, pulled, pulled.body)
    if run.first > asked:
        return Answer(Meaning.GONE, min(run.first, pulled.next_offset), pulled)
    stop = min(run.stop, pulled.next_offset)
    return Answer(Meaning.MESSAGES, stop, pulled, pulled.body[: run.size])


class _UnreadableError(Exception):
    """These bytes are no messages. Whoever decodes them complains better."""


class _Run(NamedTuple):
    """Messages at the beginning of a body whose offsets follow one another."""

    first: int
    stop: int
    size: int


def _first_run(body: bytes | memoryview, queue: MessageQueue, asked: int) -> _Run:
    first, expected = NOWHERE, asked
    place, end, head_at = 0, len(body), _HEAD.unpack_from
    try:
        while place < end:
            size, offset, sys_flag = head_at(body, place)
            if offset != expected or sys_flag & wire.INNER_BATCH or size < wire.LEAST:
                if size < wire.LEAST:
                    raise _UnreadableError
                if place and offset > expected:
                    break
                is_batch = sys_flag & wire.WRAPPED == wire.WRAPPED
                count = _count(body[place : place + size], queue) if is_batch else 1
                if offset + count <= asked or (place and offset < expected):
                    raise _misplaced(queue, asked, offset)
                expected = offset + count - 1
            if not place:
                first = offset
            expected += 1
            place += size
    except struct.error as error:
        raise _UnreadableError from error
    return _Run(first, expected, place)


def _misplaced(queue: MessageQueue, asked: int, offset: int) -> errors.ProtocolError:
    return errors.ProtocolError(
        f"{queue} from offset {asked}: the broker sent a message with offset {offset}; such "
        "offsets are those of a static topic or of a light one (LMQ), which this client does not "
        "read"
    )


def _count(message: bytes | memoryview, queue: MessageQueue) -> int:
    """Count the messages of an inner batch."""
    try:
        return len(list(messages.decode(message, queue.broker)))
    except errors.ProtocolError as error:
        raise _UnreadableError from error


NOWHERE = 1 << 63
"""Above all offsets."""
_HEAD = Struct(">i16xq8xi")
"""Size, queue offset and sysFlag."""
