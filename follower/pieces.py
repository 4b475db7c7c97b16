"""
Pieces: consecutive messages of one queue that the handler gets in one call.

A pull returns more messages than a handler should get in one call, so they are cut into pieces. A
message that cannot be read is a piece of its own. Messages are values, or rows of Arrow columns.
"""

import bisect
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mq_client.messages import StoredMessage, Unreadable
from mq_client.pulling import Batch

Messages = Any
"""A sequence of `StoredMessage` or a `pyarrow.RecordBatch`, in the order of the offsets."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Messages for one call of the handler."""

    first: int
    stop: int
    """The first offset after this piece, which also covers messages that a filter left out."""
    messages: Messages = ()
    unreadable: Unreadable | None = None
    source: Batch | None = None
    """The batch from which the Arrow columns were read; None without Arrow."""

    @property
    def begin(self) -> int:
        """The offset of this piece's first message."""
        return _find_offset(self.messages, 0) if len(self.messages) else self.first

    def cut_singles(self) -> "Iterable[Piece]":
        """Cut this piece into pieces of one message."""
        return cut(self.first, self.stop, self.messages, (), 1, self.source)

    def read_message(self) -> StoredMessage:
        """Return the only message of this piece, as a value."""
        if self.source is None:
            found: StoredMessage = self.messages[0]
            return found
        begin = self.begin
        return replace(self.source, first=begin, stop=begin + 1).to_messages()[0]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that the follower has given up."""

    message: StoredMessage
    stop: int
    """The first offset after the message."""
    trouble: str
    """Why it was given up."""


def cut(
    first: int,
    stop: int,
    messages: Messages,
    unreadable: Iterable[Unreadable],
    most: int,
    source: Batch | None = None,
) -> deque[Piece]:
    """
    Cut the messages that a pull returned for the offsets from `first` to `stop`, exclusive.

    Together the pieces cover all these offsets. No piece has more than `most` messages.
    """
    runs: list[tuple[int, Messages, Unreadable | None]] = []
    row, rows = 0, len(messages)
    for each in (*sorted(unreadable, key=lambda each: each.first), None):
        end = rows
        if each is not None:
            end = bisect.bisect_left(
                range(rows), each.first, key=lambda place: _find_offset(messages, place)
            )
        for begin in range(row, end, most):
            part = _slice(messages, begin, min(end, begin + most))
            runs.append((_find_offset(messages, begin), part, None))
        if each is not None:
            runs.append((each.first, (), each))
        row = end
    runs = runs or [(first, (), None)]
    edges = [first, *(begin for begin, _, _ in runs[1:]), stop]
    return deque(
        Piece(begin, end, part, bad, source)
        for begin, end, (_, part, bad) in zip(edges, edges[1:], runs, strict=False)
    )


def _find_offset(messages: Messages, place: int) -> int:
    if isinstance(messages, Sequence):
        found: int = messages[place].queue_offset
        return found
    return int(messages.column("queue_offset")[place].as_py())


def _slice(messages: Messages, begin: int, end: int) -> Messages:
    if isinstance(messages, Sequence):
        return tuple(messages[begin:end])
    return messages.slice(begin, end - begin)
