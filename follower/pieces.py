"""
What the handler gets at once: messages of one queue that follow one another.

A pull brings more than a handler should get in one call, so it is cut. A message that cannot be
read is a piece of its own.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from mq_client.messages import StoredMessage, Unreadable


@dataclass(frozen=True, slots=True)
class Piece:
    """Messages for one call of the handler."""

    first: int
    stop: int
    """Behind the last offset that it is about. A filter may have left out messages before it."""
    messages: tuple[StoredMessage, ...] = ()
    unreadable: Unreadable | None = None

    def cut_singles(self) -> "Iterable[Piece]":
        """Cut it into pieces of one message."""
        return cut(self.first, self.stop, self.messages, (), 1)


def cut(
    first: int,
    stop: int,
    messages: Iterable[StoredMessage],
    unreadable: Iterable[Unreadable],
    most: int,
) -> deque[Piece]:
    """
    Cut what a pull brought for the offsets from `first` up to, without, `stop`.

    Together the pieces are about all these offsets, and no piece has more than `most` messages.
    """
    runs: list[list[StoredMessage] | Unreadable] = []
    items: list[StoredMessage | Unreadable] = [*messages, *unreadable]
    for item in sorted(items, key=_get_offset):
        last = runs[-1] if runs else None
        if isinstance(item, Unreadable):
            runs.append(item)
        elif isinstance(last, list) and len(last) < most:
            last.append(item)
        else:
            runs.append([item])
    starts = [_get_offset(run[0] if isinstance(run, list) else run) for run in runs[1:]]
    found: deque[Piece] = deque()
    for run, begin, end in zip(runs or [[]], [first, *starts], [*starts, stop], strict=True):
        if isinstance(run, Unreadable):
            found.append(Piece(begin, end, unreadable=run))
        else:
            found.append(Piece(begin, end, tuple(run)))
    return found


def _get_offset(item: StoredMessage | Unreadable) -> int:
    return item.first if isinstance(item, Unreadable) else item.queue_offset
