"""
A topic's settings on one broker: read completely, and written back with new queue counts.

So all other settings stay: its order, its flags and its attributes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from evenkeel.control.provisioning.steps import QueueCounts
from mq_client.commands.base import SUCCESS, Done, Request, parse_body, to_json
from mq_client.frames import Frame

TOPIC_UNKNOWN = 17
_NEW = {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a topic on one broker."""

    counts: QueueCounts
    told: Mapping[str, Any] = field(default_factory=dict)
    """All settings as the broker sent them."""


@dataclass(frozen=True, slots=True)
class GetSettings(Request[Settings | None]):
    """Read a topic's settings from a broker; None: it has no such topic."""

    code: ClassVar[int] = 351
    name: ClassVar[str] = "GET_TOPIC_CONFIG"
    good_codes: ClassVar[frozenset[int]] = frozenset({SUCCESS, TOPIC_UNKNOWN})
    topic: str

    def read(self, answer: Frame) -> Settings | None:
        """Read the queue counts and keep the rest."""
        if answer.code == TOPIC_UNKNOWN:
            return None
        body = parse_body(answer)
        numbers = (body.read_number(name) for name in ("readQueueNums", "writeQueueNums", "perm"))
        return Settings(QueueCounts(*numbers), body.value)


@dataclass(frozen=True, slots=True)
class PutSettings(Done):
    """Write the queue counts of a topic on a broker; creates the topic if it is missing."""

    code: ClassVar[int] = 18
    name: ClassVar[str] = "UPDATE_AND_CREATE_TOPIC_LIST"
    topic: str
    counts: QueueCounts
    old: Settings | None

    def list_fields(self) -> dict[str, str]:
        """Say all in the body."""
        return {}

    def encode_body(self) -> bytes:
        """Describe the topic; brokers keep the attributes that are not named."""
        told = self.old.told if self.old else _NEW
        counts = {
            "readQueueNums": self.counts.read_queues,
            "writeQueueNums": self.counts.write_queues,
            "perm": self.counts.perm,
        }
        config = {**told, "topicName": self.topic, **counts, "attributes": {}}
        return to_json({"topicConfigList": [config]})
