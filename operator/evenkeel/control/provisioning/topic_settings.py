"""
A topic's settings at one broker: read whole, and written back with other counts.

So whatever else a broker keeps of a topic stays: its order, its flags and its attributes.
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
    """What a broker keeps of a topic."""

    counts: QueueCounts
    told: Mapping[str, Any] = field(default_factory=dict)
    """All of it, in the broker's words."""


@dataclass(frozen=True, slots=True)
class GetSettings(Request[Settings | None]):
    """Ask a broker for a topic's settings; None: it has no such topic."""

    code: ClassVar[int] = 351
    name: ClassVar[str] = "GET_TOPIC_CONFIG"
    good_codes: ClassVar[frozenset[int]] = frozenset({SUCCESS, TOPIC_UNKNOWN})
    topic: str

    def read(self, answer: Frame) -> Settings | None:
        """Read the counts; the rest stays as it is."""
        if answer.code == TOPIC_UNKNOWN:
            return None
        body = parse_body(answer)
        numbers = (body.read_number(name) for name in ("readQueueNums", "writeQueueNums", "perm"))
        return Settings(QueueCounts(*numbers), body.value)


@dataclass(frozen=True, slots=True)
class PutSettings(Done):
    """Give a topic these counts at a broker, and make it if it is not there."""

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
