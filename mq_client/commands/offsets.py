"""Requests about offsets: beginnings and ends of queues, committed offsets, and lag."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from mq_client.commands.base import (
    Done,
    Node,
    Request,
    parse_body,
    parse_key,
    read_queue,
    read_whole,
    send_as,
)
from mq_client.frames import Frame
from mq_client.values import Lag, MessageQueue, Offsets


@dataclass(frozen=True, slots=True)
class _OffsetRequest(Request[int]):
    topic: str
    queue_id: int

    def read(self, answer: Frame) -> int:
        """Read the offset."""
        return read_whole(answer, "offset")


@dataclass(frozen=True, slots=True)
class GetMaxOffset(_OffsetRequest):
    """Ask for the offset that the next message will have."""

    code: ClassVar[int] = 30
    name: ClassVar[str] = "GET_MAX_OFFSET"


@dataclass(frozen=True, slots=True)
class GetMinOffset(_OffsetRequest):
    """Ask for the offset of the first message that is still stored."""

    code: ClassVar[int] = 31
    name: ClassVar[str] = "GET_MIN_OFFSET"


@dataclass(frozen=True, slots=True)
class SearchOffset(_OffsetRequest):
    """Ask for the offset of the first message that was stored at this time or later."""

    code: ClassVar[int] = 29
    name: ClassVar[str] = "SEARCH_OFFSET_BY_TIMESTAMP"
    timestamp_ms: int = send_as("timestamp")


@dataclass(frozen=True, slots=True)
class GetOffset(Request[int]):
    """Ask for the offset that a group has committed for a queue."""

    code: ClassVar[int] = 14
    name: ClassVar[str] = "QUERY_CONSUMER_OFFSET"
    group: str = send_as("consumerGroup")
    topic: str = send_as("topic")
    queue_id: int = send_as("queueId")
    set_zero_if_not_found: bool = False

    def read(self, answer: Frame) -> int:
        """Read the offset."""
        return read_whole(answer, "offset")


@dataclass(frozen=True, slots=True)
class CommitOffset(Done):
    """Set the offset that a group reads next. The broker accepts any offset, also a lower one."""

    code: ClassVar[int] = 15
    name: ClassVar[str] = "UPDATE_CONSUMER_OFFSET"
    group: str = send_as("consumerGroup")
    topic: str = send_as("topic")
    queue_id: int = send_as("queueId")
    offset: int = send_as("commitOffset")


@dataclass(frozen=True, slots=True)
class ResetOffset(Done):
    """
    Set the offset at which a group goes on, also for consumers that pop.

    Until somebody has pulled or popped from the queue, commits of the group have no effect on it.
    """

    code: ClassVar[int] = 222
    name: ClassVar[str] = "INVOKE_BROKER_TO_RESET_OFFSET"
    group: str
    topic: str
    queue_id: int = send_as("queueId")
    offset: int = send_as("offset")
    timestamp: int = -1
    is_forced: bool = send_as("isForce", default=True)


@dataclass(frozen=True, slots=True)
class GetTopicOffsets(Request[dict[MessageQueue, Offsets]]):
    """Ask for the offsets of all queues of a topic on this broker."""

    code: ClassVar[int] = 202
    name: ClassVar[str] = "GET_TOPIC_STATS_INFO"
    topic: str

    def read(self, answer: Frame) -> dict[MessageQueue, Offsets]:
        """Read the table, by queue."""
        return {
            queue: Offsets(
                node.read_number("minOffset"),
                node.read_number("maxOffset"),
                node.read_number("lastUpdateTimestamp", 0),
            )
            for queue, node in _read_offset_table(parse_body(answer))
        }


@dataclass(frozen=True, slots=True)
class GetLag(Request[list[Lag]]):
    """Ask for the lag of a group on all queues of a topic on this broker."""

    code: ClassVar[int] = 208
    name: ClassVar[str] = "GET_CONSUME_STATS"
    group: str = send_as("consumerGroup")
    topic: str = send_as("topic")

    def read(self, answer: Frame) -> list[Lag]:
        """Read the table, by queue."""
        return [
            Lag(
                queue,
                node.read_number("brokerOffset"),
                node.read_number("consumerOffset"),
                node.read_number("lastTimestamp", 0),
                node.read_number("pullOffset", -1),
            )
            for queue, node in _read_offset_table(parse_body(answer))
        ]


def _read_offset_table(body: Node) -> Iterable[tuple[MessageQueue, Node]]:
    """Read an `offsetTable`, whose keys are queues."""
    table = body.read_table("offsetTable").items()
    found = [(read_queue(parse_key(key, "offsetTable")), value) for key, value in table]
    return [(queue, Node(value, f"the entry of {queue}")) for queue, value in sorted(found)]
