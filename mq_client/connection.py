"""
Our side of one connection, without I/O: it numbers requests, and matches answers to waiters.

Each request is sent with a number. Answers arrive in any order, and contain the number of their
request. The caller passes the time. A waiter waits until its answer arrives, its deadline passes,
or the connection ends.

The peer also sends requests, with its own numbers, so an answer is recognized by its flag and its
number. An answer without a waiter has arrived after its deadline, and is ignored.
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
    """Numbers requests, keeps their waiters, and delivers answers to them."""

    def __init__(self, credentials: Credentials | None = None) -> None:
        """Prepare the connection. With credentials, every request is signed."""
        self._credentials = credentials
        self._numbers = count(1)
        self._waits: dict[int, _Wait[Waiter]] = {}
        self._earliest = NEVER
        self._heard_at = -NEVER
        self.reader = FrameReader()

    def request(self, request: Request[Any], waiter: Waiter, now: float, deadline: float) -> bytes:
        """Number a request, keep its waiter, and return the bytes to send."""
        number = next(self._numbers)
        data = self._encode(request, number, 0)
        self._waits[number] = _Wait(waiter, deadline, now)
        self._earliest = min(self._earliest, deadline)
        return data

    def tell(self, request: Request[Any]) -> bytes:
        """Encode a request that gets no answer."""
        return self._encode(request, next(self._numbers), frames.ONE_WAY)

    def receive(
        self,
        size: int,
        now: float,
        on_answer: Callable[[Waiter, Frame], None],
        on_push: Callable[[Frame], None],
    ) -> bytes:
        """
        Read `size` bytes that are now in the reader's buffer.

        `on_answer` is called for answers, `on_push` for requests of the peer. Return the bytes to
        send back.
        """
        self._heard_at = now
        replies = b""
        for frame in self.reader.accept(size):
            if frame.is_answer:
                wait = self._waits.pop(frame.opaque, None)
                if wait is not None:
                    on_answer(wait.waiter, frame)
            else:
                on_push(frame)
                replies += _reply(frame)
        return replies

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight."""
        return not self._waits

    @property
    def next_deadline(self) -> float:
        """The earliest deadline."""
        return self._earliest if self._waits else NEVER

    def expire(self, now: float) -> tuple[list[Waiter], bool]:
        """
        Remove the waits that have timed out. Return their waiters, and whether the peer is silent.

        The peer is silent if it has sent nothing since the oldest of these waits began. In that
        case, the peer may be down, and the caller should close the connection.
        """
        if now < self._earliest:
            return [], False
        late = [number for number, wait in self._waits.items() if wait.deadline <= now]
        over = [self._waits.pop(number) for number in late]
        self._earliest = min((wait.deadline for wait in self._waits.values()), default=NEVER)
        is_silent = any(wait.since > self._heard_at for wait in over)
        return [wait.waiter for wait in over], is_silent

    def end(self) -> list[Waiter]:
        """Remove all waits, because the connection has ended. Return their waiters."""
        waits, self._waits = self._waits, {}
        return [wait.waiter for wait in waits.values()]

    def _encode(self, request: Request[Any], number: int, flag: int) -> bytes:
        fields, body = request.list_fields(), request.encode_body()
        if self._credentials is not None:
            fields = acl.sign(fields, body, self._credentials)
        return frames.encode(Frame(request.code, number, flag, fields, None, body))


def _reply(frame: Frame) -> bytes:
    """Reply that a peer's request is unknown, if the peer waits for an answer."""
    if frame.is_one_way:
        return b""
    remark = f"this client does not answer requests of code {frame.code}"
    return frames.encode(Frame(UNKNOWN_REQUEST, frame.opaque, frames.ANSWER, {}, remark))
