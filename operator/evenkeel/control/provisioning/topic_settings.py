"""
Reads all settings of a topic on one broker, and writes them back with new numbers of queues.

In this way, the order, flags and attributes of the topic do not change.
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
    """Read a topic's settings from a broker. None: the broker does not have the topic."""

    code: ClassVar[int] = 351
    name: ClassVar[str] = "GET_TOPIC_CONFIG"
    good_codes: ClassVar[frozenset[int]] = frozenset({SUCCESS, TOPIC_UNKNOWN})
    topic: str

    def read(self, answer: Frame) -> Settings | None:
        """Read the numbers of queues, and keep the other settings."""
        if answer.code == TOPIC_UNKNOWN:
            return None
        body = parse_body(answer)
        numbers = (body.read_number(name) for name in ("readQueueNums", "writeQueueNums", "perm"))
        return Settings(QueueCounts(*numbers), body.value)


@dataclass(frozen=True, slots=True)
class PutSettings(Done):
    """Write the numbers of queues of a topic on a broker. This creates a missing topic."""

    code: ClassVar[int] = 18
    name: ClassVar[str] = "UPDATE_AND_CREATE_TOPIC_LIST"
    topic: str
    counts: QueueCounts
    old: Settings | None

    def list_fields(self) -> dict[str, str]:
        """Leave the header empty, because everything is in the body."""
        return {}

    def encode_body(self) -> bytes:
        """Encode the topic's settings. Brokers keep attributes that are not in the body."""
        told = self.old.told if self.old else _NEW
        counts = {
            "readQueueNums": self.counts.read_queues,
            "writeQueueNums": self.counts.write_queues,
            "perm": self.counts.perm,
        }
        config = {**told, "topicName": self.topic, **counts, "attributes": {}}
        return to_json({"topicConfigList": [config]})
