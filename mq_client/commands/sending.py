"""Requests of producers."""

from dataclasses import dataclass
from typing import ClassVar

from mq_client.commands.base import Request, read_whole
from mq_client.frames import Frame
from mq_client.values import MessageQueue, Stored

FLUSH_OR_SLAVE_LATE = frozenset({10, 11, 12})
"""Codes: the message is stored, but was not on disk or on the slave within the broker's timeout."""


@dataclass(frozen=True, slots=True)
class Send(Request[Stored]):
    """Store one message, or a batch from `messages.encode_batch`."""

    code: ClassVar[int] = 310
    name: ClassVar[str] = "SEND_MESSAGE_V2"
    good_codes: ClassVar[frozenset[int]] = frozenset({0}) | FLUSH_OR_SLAVE_LATE
    group: str
    queue: MessageQueue
    content: bytes
    properties: str
    born_ms: int
    sys_flag: int = 0
    flag: int = 0
    is_batch: bool = False

    @property
    def topic(self) -> str:
        """The topic of the queue."""
        return self.queue.topic

    @property
    def queue_id(self) -> int:
        """The queue's number on its broker."""
        return self.queue.id

    def list_fields(self) -> dict[str, str]:
        """List the fields under short names, as in RocketMQ's second version of this request."""
        return {
            "a": self.group,
            "b": self.queue.topic,
            "c": "TBW102",
            "d": "4",
            "e": str(self.queue.id),
            "f": str(self.sys_flag),
            "g": str(self.born_ms),
            "h": str(self.flag),
            "i": self.properties,
            "j": "0",
            "k": "false",
            "l": "0",
            "m": str(self.is_batch).lower(),
            "n": self.queue.broker,
        }

    def encode_body(self) -> bytes:
        """Return the encoded message."""
        return self.content

    def read(self, answer: Frame) -> Stored:
        """Read the queue and the offset of the stored message."""
        queue = MessageQueue(self.queue.topic, self.queue.broker, read_whole(answer, "queueId"))
        return Stored(queue, read_whole(answer, "queueOffset"))


@dataclass(frozen=True, slots=True)
class SendBatch(Send):
    """Store a batch."""

    code: ClassVar[int] = 320
    name: ClassVar[str] = "SEND_BATCH_MESSAGE"
    is_batch: bool = True
