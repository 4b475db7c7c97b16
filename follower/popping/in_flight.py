"""
The messages of one queue that a member has popped in their order, without I/O.

Nobody else gets them before their invisible time is over.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from follower.popping.invisible_time import InvisibleTime
from mq_client.popping import MOST_POPPED, PopHandle, PoppedMessage
from mq_client.values import MessageQueue


@dataclass(slots=True, eq=False)
class InFlight:
    """The messages of one queue that are not acknowledged yet."""

    queue: MessageQueue
    time: InvisibleTime
    next_offset: int
    """The offset after the last message that was popped."""
    attempt_id: str = ""
    """The id of a pop that has no answer. A pop with the same id gets the same messages."""
    handles: dict[int, PopHandle] = field(default_factory=dict)
    """The messages that are not acknowledged, by offset."""
    largest: int = 1
    """The size of the largest body so far, in bytes."""
    _is_free: asyncio.Event = field(default_factory=asyncio.Event)

    def is_late(self, now: float) -> bool:
        """Whether the handler must not begin with the messages: others may soon get them."""
        return bool(self.handles) and self.time.is_late(now)

    def find_room(self, most_bytes: int) -> int:
        """Find how many messages a pop may take."""
        return max(1, min(MOST_POPPED, most_bytes // self.largest))

    def take(self, found: Sequence[PoppedMessage], popped_at: float) -> None:
        """Take messages that were popped at this time, by the member's clock."""
        assert not self.handles, "the next pop begins when these messages are acknowledged"
        self.handles = {each.handle.offset: each.handle for each in found}
        self.next_offset = found[-1].handle.offset + 1
        self.largest = max(self.largest, *(len(each.message.body) for each in found))
        self._is_free.clear()
        self.time.count_from(popped_at)

    def list_below(self, offset: int) -> list[PopHandle]:
        """List the messages below this offset."""
        return [handle for place, handle in self.handles.items() if place < offset]

    def find_last(self) -> PopHandle | None:
        """Find the last message that is not acknowledged; None if all are."""
        return self.handles[max(self.handles)] if self.handles else None

    async def wait_until_free(self) -> None:
        """Wait until all messages are acknowledged or given back."""
        if self.handles:
            await self._is_free.wait()

    def settle(self, handles: Sequence[PopHandle]) -> None:
        """Note that these messages are acknowledged or given back."""
        for handle in handles:
            self.handles.pop(handle.offset, None)
        if not self.handles:
            self._is_free.set()
