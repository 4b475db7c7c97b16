"""Requests about one stored message: its place in the commit log, and when it was stored."""

from dataclasses import dataclass
from typing import ClassVar

from mq_client import decoding
from mq_client.commands.base import Request, parse_body, send_as
from mq_client.frames import Frame


@dataclass(frozen=True, slots=True)
class FindStored(Request[int | None]):
    """Ask where the commit log has the message at this offset of a queue, or the next one."""

    code: ClassVar[int] = 321
    name: ClassVar[str] = "QUERY_CONSUME_QUEUE"
    topic: str
    queue_id: int
    offset: int = send_as("index")
    count: int = 1

    def read(self, answer: Frame) -> int | None:
        """Read the offset in the commit log; None if the queue has no such message."""
        if not answer.body:
            return None
        found = parse_body(answer).read_nodes("queueData")
        return found[0].read_number("physicOffset") if found else None


@dataclass(frozen=True, slots=True)
class GetStoreTime(Request[int]):
    """Ask when the message at an offset of the commit log was stored."""

    code: ClassVar[int] = 33
    name: ClassVar[str] = "VIEW_MESSAGE_BY_ID"
    topic: str
    commit_log_offset: int = send_as("offset")

    def read(self, answer: Frame) -> int:
        """Read the time from the message, in Unix milliseconds."""
        return decoding.read_store_time(bytes(answer.body))
