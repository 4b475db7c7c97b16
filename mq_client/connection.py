"""
One connection's side of the conversation, without the connection.

Requests go out as bytes with a number each; answers come back in any order and find who waits for
them by that number. Whoever moves the bytes says what time it is. Three things can end a wait:
the answer, the deadline, and the end of the connection.

The peer also asks: it numbers its own requests, so an answer is told by its flag, never by its
number alone. An answer that nobody waits for came too late, and is dropped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, TypeVar

from mq_client import acl, frames
from mq_client.acl import Credentials
from mq_client.commands.base import Request
from mq_client.frames import Frame, FrameReader

Waiter = TypeVar("Waiter")
UNKNOWN_REQUEST = 3
NEVER = float("inf")


@dataclass(slots=True)
class _Wait(Generic[Waiter]):
    waiter: Waiter
    deadline: float
    since: float


class Connection(Generic[Waiter]):
    """Numbers requests, knows who waits, and hands out what arrives."""

    def __init__(self, credentials: Credentials | None = None) -> None:
        """Sign every request, if there are credentials."""
        self._credentials = credentials
        self._numbers = count(1)
        self._waits: dict[int, _Wait[Waiter]] = {}
        self._earliest = NEVER
        self._heard_at = -NEVER
        self.reader = FrameReader()

    def request(self, request: Request[Any], waiter: Waiter, now: float, deadline: float) -> bytes:
        """Number a request and remember who waits for it; the bytes to send."""
        number = next(self._numbers)
        data = self._encoded(request, number, 0)
        self._waits[number] = _Wait(waiter, deadline, now)
        self._earliest = min(self._earliest, deadline)
        return data

    def one_way(self, request: Request[Any]) -> bytes:
        """Encode a request that gets no answer."""
        return self._encoded(request, next(self._numbers), frames.ONE_WAY)

    def received(
        self,
        size: int,
        now: float,
        answered: Callable[[Waiter, Frame], None],
        asked: Callable[[Frame], None],
    ) -> bytes:
        """
        Take note that `size` bytes are in the reader's space.

        Answers and the peer's requests are handed out; what must be sent back is returned.
        """
        self._heard_at = now
        replies = b""
        for frame in self.reader.filled(size):
            if frame.is_answer:
                wait = self._waits.pop(frame.opaque, None)
                if wait is not None:
                    answered(wait.waiter, frame)
            else:
                asked(frame)
                replies += _reply(frame)
        return replies

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits."""
        return not self._waits

    @property
    def next_deadline(self) -> float:
        """No wait ends before this time."""
        return self._earliest if self._waits else NEVER

    def expired(self, now: float) -> tuple[list[Waiter], bool]:
        """
        Forget the waits whose time is over.

        Also tells whether the peer has been silent since the oldest of them began: then nobody may
        be there any more, and the connection should be given up.
        """
        if now < self._earliest:
            return [], False
        late = [number for number, wait in self._waits.items() if wait.deadline <= now]
        over = [self._waits.pop(number) for number in late]
        self._earliest = min((wait.deadline for wait in self._waits.values()), default=NEVER)
        is_silent = any(wait.since > self._heard_at for wait in over)
        return [wait.waiter for wait in over], is_silent

    def ended(self) -> list[Waiter]:
        """Forget all waits: the connection is gone."""
        waits, self._waits = self._waits, {}
        return [wait.waiter for wait in waits.values()]

    def _encoded(self, request: Request[Any], number: int, flag: int) -> bytes:
        fields, body = request.fields(), request.body()
        if self._credentials is not None:
            fields = acl.sign(fields, body, self._credentials)
        return frames.encode(Frame(request.code, number, flag, fields, None, body))


def _reply(frame: Frame) -> bytes:
    """Tell the peer that its request is unknown, where it waits for an answer."""
    if frame.is_one_way:
        return b""
    remark = f"this client does not answer requests of code {frame.code}"
    return frames.encode(Frame(UNKNOWN_REQUEST, frame.opaque, frames.ANSWER, {}, remark))
