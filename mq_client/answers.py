"""
Find out what an answer to a pull means for a reader that reads a queue in order.

An answer's code alone is ambiguous. For example, RocketMQ's own client continues after code 20,
which may also mean that messages were deleted. The remark of the answer contains the broker's
`GetMessageStatus`, which distinguishes these cases. `MEANINGS` has every combination of code and
status that RocketMQ 4.9 and 5.x can return. (In RocketMQ, `DefaultMessageStore.getMessage` chooses
the status and the next offset, and `PullMessageProcessor` and its result handler choose the code.)
If a master would answer 19 or 21, its slave answers 20 and returns the requested offset as the next
offset. A combination outside the table is an error, because a guess could lose messages silently.

Without a filter, the body of an answer is checked too: each offset from the requested one up to
`next_offset`, exclusive, must be in the body. If an offset is missing in the body, its message is
gone, whatever the broker's status is.
"""

import struct
from dataclasses import dataclass, field
from enum import Enum
from struct import Struct
from typing import NamedTuple

from mq_client import decoding, errors, wire
from mq_client.filters import Filter
from mq_client.values import MessageQueue, Pulled, PullStatus


class Meaning(Enum):
    """What a reader does next."""

    MESSAGES = "take the messages, and continue after them"
    PASSED_OVER = "no message up to the next offset passes the filter: continue there"
    GONE = "the messages up to the next offset are gone: an error, or a recorded gap"
    NOTHING_YET = "the queue ends here: ask again later"
    BEYOND_END = (
        "this broker's queue ends before the offset: a lagging broker, or a recreated topic"
    )
    HELD = "the offset exists, but the answer has no message and no next offset: ask again"
    RESET = "the group's offset was set on the broker; a reader with its own offsets asks again"


_FOUND, _NEW, _MATCHED, _MOVED = PullStatus

MEANINGS: dict[tuple[PullStatus, str | None], Meaning] = {
    # The broker also returns this status if it could not read some of the messages.
    (_FOUND, "FOUND"): Meaning.MESSAGES,
    # The requested offset is the queue's end. A slave whose master is up answers 20.
    (_NEW, "OFFSET_OVERFLOW_ONE"): Meaning.NOTHING_YET,
    (_MATCHED, "OFFSET_OVERFLOW_ONE"): Meaning.NOTHING_YET,
    # No message was ever written to the queue. The code is 19 for offset 0, otherwise 21.
    (_NEW, "NO_MESSAGE_IN_QUEUE"): Meaning.NOTHING_YET,
    (_MOVED, "NO_MESSAGE_IN_QUEUE"): Meaning.BEYOND_END,
    (_MATCHED, "NO_MESSAGE_IN_QUEUE"): Meaning.BEYOND_END,
    # There is no such consume queue. Stores of 5.x create one; 4.9 and tiered stores may not.
    (_NEW, "NO_MATCHED_LOGIC_QUEUE"): Meaning.NOTHING_YET,
    (_MOVED, "NO_MATCHED_LOGIC_QUEUE"): Meaning.BEYOND_END,
    (_MATCHED, "NO_MATCHED_LOGIC_QUEUE"): Meaning.BEYOND_END,
    # The index file of these offsets is missing. The next offset is the start of the next file.
    (_NEW, "OFFSET_FOUND_NULL"): Meaning.GONE,
    (_MATCHED, "OFFSET_FOUND_NULL"): Meaning.GONE,
    # The filter rejected all messages. If there was no filter, the index has a gap or is
    # unreadable.
    (_MATCHED, "NO_MATCHED_MESSAGE"): Meaning.PASSED_OVER,
    # The commit-log file is deleted. The broker corrects the queue's minimum at least 10 s later.
    (_MATCHED, "MESSAGE_WAS_REMOVING"): Meaning.GONE,
    # The offset is below the queue's minimum. The answer returns this minimum as the next offset. A
    # slave answers 20, without a next offset.
    (_MOVED, "OFFSET_TOO_SMALL"): Meaning.GONE,
    (_MATCHED, "OFFSET_TOO_SMALL"): Meaning.GONE,
    # The offset is above the queue's maximum. The answer returns this maximum as the next offset. A
    # slave answers 20, without a next offset.
    (_MOVED, "OFFSET_OVERFLOW_BADLY"): Meaning.BEYOND_END,
    (_MATCHED, "OFFSET_OVERFLOW_BADLY"): Meaning.BEYOND_END,
    # An administrator has reset the offset (5.0 and later, `useServerSideResetOffset`). Only the
    # group's next pull gets this answer. Later pulls are answered as usual.
    (_MOVED, "OFFSET_RESET"): Meaning.RESET,
    (_MATCHED, "OFFSET_RESET"): Meaning.RESET,
    # There is no remark, as in the rewritten answers of static topics. Only the offsets show the
    # meaning.
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
    The meaning of one answer, for the offsets from the requested one up to `stop`, exclusive.

    `body` ends before the first gap in its offsets.
    """

    meaning: Meaning
    stop: int
    pulled: Pulled = field(repr=False)
    body: bytes | memoryview = field(default=b"", repr=False)


def read(pulled: Pulled, queue: MessageQueue, asked: int, wanted: Filter) -> Answer:
    """Find out what an answer means for a reader that pulled from the offset `asked`."""
    try:
        meaning = MEANINGS[pulled.status, pulled.remark]
    except KeyError:
        raise UnknownAnswerError(
            f"{queue} from offset {asked}: the broker answered code {pulled.status.value} with "
            f"the remark {pulled.remark!r}, a combination that no known RocketMQ version sends; "
            "nothing was read"
        ) from None
    stop = pulled.next_offset
    if meaning is Meaning.GONE and pulled.remark is None and stop < asked:
        meaning = Meaning.BEYOND_END
    if pulled.status is PullStatus.NOTHING_NEW:  # the next index file may not exist yet
        stop = min(stop, pulled.max_offset)
    if meaning in (Meaning.NOTHING_YET, Meaning.BEYOND_END, Meaning.RESET):
        return Answer(meaning, asked, pulled)
    if stop <= asked:
        return Answer(Meaning.HELD, asked, pulled)
    if meaning is Meaning.GONE or (meaning is Meaning.PASSED_OVER and wanted.is_everything):
        return Answer(Meaning.GONE, stop, pulled)
    if wanted.is_everything:
        return _check_order(pulled, queue, asked)
    if asked < pulled.min_offset:  # with a filter, only this gap can be seen
        return Answer(Meaning.GONE, min(stop, pulled.min_offset), pulled)
    return Answer(meaning, stop, pulled, pulled.body)


def _check_order(pulled: Pulled, queue: MessageQueue, asked: int) -> Answer:
    """Check that the body has a message for each offset of the answer."""
    try:
        run = _find_first_run(pulled.body, queue, asked)
    except _UnreadableError:
        return Answer(Meaning.MESSAGES, pulled.next_offset, pulled, pulled.body)
    if run.first > asked:
        return Answer(Meaning.GONE, min(run.first, pulled.next_offset), pulled)
    stop = min(run.stop, pulled.next_offset)
    return Answer(Meaning.MESSAGES, stop, pulled, pulled.body[: run.size])


class _UnreadableError(Exception):
    """The bytes are not messages. `decoding.decode` raises the exact error."""


class _Run(NamedTuple):
    """The messages at the beginning of a body, up to the first gap in their offsets."""

    first: int
    stop: int
    size: int


def _find_first_run(body: bytes | memoryview, queue: MessageQueue, asked: int) -> _Run:
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
                    raise _make_misplaced_error(queue, asked, offset)
                expected = offset + count - 1
            if not place:
                first = offset
            expected += 1
            place += size
    except struct.error as error:
        raise _UnreadableError from error
    return _Run(first, expected, place)


def _make_misplaced_error(queue: MessageQueue, asked: int, offset: int) -> errors.ProtocolError:
    return errors.ProtocolError(
        f"{queue} from offset {asked}: the broker sent a message with offset {offset}, as it "
        "does for static topics and light topics (LMQ), which this client cannot read"
    )


def _count(message: bytes | memoryview, queue: MessageQueue) -> int:
    """Count the messages of an inner batch."""
    try:
        return len(list(decoding.decode(message, queue.broker)))
    except errors.ProtocolError as error:
        raise _UnreadableError from error


NOWHERE = 1 << 63
"""A number above all offsets."""
_HEAD = Struct(">i16xq8xi")
"""Size, queue offset and sysFlag."""
