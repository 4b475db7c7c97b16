"""Requests of consumers that pop: receive single messages, and acknowledge each."""

import base64
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mq_client import errors, filters
from mq_client.commands.base import Done, Request, read_whole, to_json
from mq_client.filters import Filter
from mq_client.frames import Frame
from mq_client.popping import PopHandle, Popped, PopSource

ALL_QUEUES = -1
NOTHING_IN_TIME, TOO_MANY_WAIT = 210, 209
BAD_HANDLE = frozenset({13, 208})
"""Codes: there is no such queue, or no such offset."""


@dataclass(frozen=True, slots=True)
class Pop(Request[Popped]):
    """
    Take messages for a while: nobody else gets them until `invisible_ms` have passed.

    The broker waits up to `poll_ms` if there are none. Without a queue, it looks at all its queues
    of the topic, and at those of the group's retries.
    """

    code: ClassVar[int] = 200050
    name: ClassVar[str] = "POP_MESSAGE"
    good_codes: ClassVar[frozenset[int]] = frozenset({0, NOTHING_IN_TIME})
    group: str
    topic: str
    most: int
    invisible_ms: int
    poll_ms: int
    queue_id: int = ALL_QUEUES
    wanted: Filter = filters.EVERYTHING
    from_end: bool = False
    """Where a group begins that has never read: with new messages, or with the oldest."""
    is_ordered: bool = False
    attempt_id: str | None = None
    """An ordered pop with the id of an earlier one gets what that one got."""

    def list_fields(self) -> dict[str, str]:
        """List the fields. The broker stamps the request: clocks may differ."""
        fields = {
            "consumerGroup": self.group,
            "topic": self.topic,
            "queueId": str(self.queue_id),
            "maxMsgNums": str(self.most),
            "invisibleTime": str(self.invisible_ms),
            "pollTime": str(self.poll_ms),
            "bornTime": "0",
            "initMode": "1" if self.from_end else "0",
            "expType": self.wanted.kind,
            "exp": self.wanted.expression,
            "order": str(self.is_ordered).lower(),
        }
        return fields if self.attempt_id is None else {**fields, "attemptId": self.attempt_id}

    def read(self, answer: Frame) -> Popped:
        """Read where the messages come from. The messages stay encoded."""
        if answer.code == NOTHING_IN_TIME:
            return Popped()
        return Popped(
            read_whole(answer, "popTime"),
            read_whole(answer, "invisibleTime"),
            read_whole(answer, "reviveQid"),
            _read_starts(answer.fields.get("startOffsetInfo") or ""),
            _read_starts(answer.fields.get("orderCountInfo") or ""),
            answer.body,
        )

    def make_refusal(self, answer: Frame, address: str) -> errors.AnswerError:
        """Recognize a broker that cannot keep popped messages."""
        if answer.code == 1 and "timerWheelEnable" in (answer.remark or ""):
            return errors.PopsOffError(self.describe(), address, answer.code, answer.remark)
        return errors.make_refusal(self.describe(), address, answer.code, answer.remark)


def _read_starts(text: str) -> Mapping[tuple[PopSource, str], int]:
    """Read entries of source, queue and number, such as `0 3 17;1 0 4`."""
    found: dict[tuple[PopSource, str], int] = {}
    for entry in filter(None, text.split(";")):
        try:
            source, queue, number = entry.split(" ")
            found[PopSource(source), queue] = int(number)
        except ValueError as error:
            raise errors.ProtocolError(f"{entry!r} is not source, queue and number") from error
    return found


@dataclass(frozen=True, slots=True)
class _OfMessage:
    group: str
    topic: str
    handle: PopHandle

    def list_fields(self) -> dict[str, str]:
        """Name the message, in the topic in which it is stored."""
        return {
            "consumerGroup": self.group,
            "topic": self.handle.source.name_topic(self.group, self.topic),
            "queueId": str(self.handle.queue_id),
            "offset": str(self.handle.offset),
            "extraInfo": str(self.handle),
        }

    def make_refusal(self, answer: Frame, address: str) -> errors.AnswerError:
        """Recognize a handle that fits no message of this broker."""
        described = f"{self.name} {self.group} {self.topic} {self.handle}"  # type: ignore[attr-defined]
        if answer.code in BAD_HANDLE:
            return errors.HandleError(described, address, answer.code, answer.remark)
        return errors.make_refusal(described, address, answer.code, answer.remark)


@dataclass(frozen=True, slots=True)
class Ack(_OfMessage, Done):
    """
    Acknowledge a message: nobody gets it again.

    An ack that comes twice or too late, or with an old handle, succeeds without effect.
    """

    code: ClassVar[int] = 200051
    name: ClassVar[str] = "ACK_MESSAGE"


@dataclass(frozen=True, slots=True)
class ChangeInvisible(_OfMessage, Request[PopHandle]):
    """Let a message become visible so many milliseconds from now."""

    code: ClassVar[int] = 200053
    name: ClassVar[str] = "CHANGE_MESSAGE_INVISIBLETIME"
    invisible_ms: int

    def list_fields(self) -> dict[str, str]:
        """Name the message and the time."""
        return {**_OfMessage.list_fields(self), "invisibleTime": str(self.invisible_ms)}

    def read(self, answer: Frame) -> PopHandle:
        """Make the new handle."""
        return self.handle._replace(
            start=self.handle.offset,
            popped_at_ms=read_whole(answer, "popTime"),
            invisible_ms=read_whole(answer, "invisibleTime"),
            revive_queue=read_whole(answer, "reviveQid"),
        )


@dataclass(frozen=True, slots=True)
class BatchAck(Done):
    """Acknowledge many messages of one broker."""

    code: ClassVar[int] = 200151
    name: ClassVar[str] = "BATCH_ACK_MESSAGE"
    group: str
    topic: str
    handles: tuple[PopHandle, ...]

    def list_fields(self) -> dict[str, str]:
        """Leave the header empty; everything is in the body."""
        return {}

    def encode_body(self) -> bytes:
        """Encode an entry for each pop of each queue, with a bit for each of its messages."""
        pops: dict[PopHandle, list[int]] = defaultdict(list)
        for handle in self.handles:
            pops[handle._replace(offset=handle.start)].append(handle.offset - handle.start)
        acks = [self._describe(pop, places) for pop, places in pops.items()]
        return to_json({"brokerName": self.handles[0].broker, "acks": acks})

    def _describe(self, pop: PopHandle, places: Iterable[int]) -> dict[str, Any]:
        bits = sum(1 << place for place in set(places))
        return {
            "c": self.group,
            "t": self.topic,
            "r": pop.source.value,
            "so": pop.start,
            "q": pop.queue_id,
            "rq": pop.revive_queue,
            "pt": pop.popped_at_ms,
            "it": pop.invisible_ms,
            "b": base64.b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode(),
        }


@dataclass(frozen=True, slots=True)
class SendBack(Done):
    """Copy a message to the group's dead letters, whatever it was popped as."""

    code: ClassVar[int] = 36
    name: ClassVar[str] = "CONSUMER_SEND_MSG_BACK"
    group: str
    topic: str
    commit_log_offset: int
    unique_key: str = ""

    def list_fields(self) -> dict[str, str]:
        """Name the message by its place in the broker's log."""
        return {
            "group": self.group,
            "offset": str(self.commit_log_offset),
            "delayLevel": "-1",
            "originMsgId": self.unique_key,
            "originTopic": self.topic,
            "unitMode": "false",
            "maxReconsumeTimes": "0",
        }


@dataclass(frozen=True, slots=True)
class Notification(Request[bool]):
    """Wait until there is a message to pop. Nothing is taken."""

    code: ClassVar[int] = 200054
    name: ClassVar[str] = "NOTIFICATION"
    group: str
    topic: str
    poll_ms: int
    queue_id: int = ALL_QUEUES
    is_ordered: bool = False

    def list_fields(self) -> dict[str, str]:
        """List the fields."""
        return {
            "consumerGroup": self.group,
            "topic": self.topic,
            "queueId": str(self.queue_id),
            "pollTime": str(self.poll_ms),
            "bornTime": "0",
            "order": str(self.is_ordered).lower(),
        }

    def read(self, answer: Frame) -> bool:
        """Read whether there is a message."""
        if answer.fields.get("pollingFull") == "true":
            remark = "too many requests wait at this broker"
            raise errors.BusyError(self.describe(), "its broker", TOO_MANY_WAIT, remark)
        return answer.fields.get("hasMsg") == "true"


@dataclass(frozen=True, slots=True)
class GetParkedPops(Request[int]):
    """Ask how many pops of a group wait at this broker."""

    code: ClassVar[int] = 200055
    name: ClassVar[str] = "POLLING_INFO"
    group: str
    topic: str
    queue_id: int = ALL_QUEUES

    def list_fields(self) -> dict[str, str]:
        """List the fields."""
        return {
            "consumerGroup": self.group,
            "topic": self.topic,
            "queueId": str(self.queue_id),
        }

    def read(self, answer: Frame) -> int:
        """Read the number."""
        return read_whole(answer, "pollingNum")
