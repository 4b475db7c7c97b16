"""Requests about the settings of groups, which each broker keeps for itself."""

from dataclasses import dataclass
from typing import Any, ClassVar

from mq_client.commands.base import Done, Node, Request, parse_body, to_json
from mq_client.frames import Frame
from mq_client.values import MOST_RETRIES, GroupConfig, RequestMode


@dataclass(frozen=True, slots=True)
class PutGroup(Done):
    """Create a group, or replace its settings."""

    code: ClassVar[int] = 200
    name: ClassVar[str] = "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP"
    config: GroupConfig

    def list_fields(self) -> dict[str, str]:
        """Leave the header empty; everything is in the body."""
        return {}

    def encode_body(self) -> bytes:
        """Encode the settings. Others get RocketMQ's defaults."""
        return to_json(
            {
                "groupName": self.config.group,
                "consumeEnable": self.config.is_enabled,
                "consumeMessageOrderly": self.config.is_ordered,
                "retryMaxTimes": self.config.most_retries,
                "consumeFromMinEnable": True,
                "consumeBroadcastEnable": True,
                "notifyConsumerIdsChangedEnable": True,
            }
        )

    def describe(self) -> str:
        """Name the group."""
        return f"{self.name} {self.config.group}"


@dataclass(frozen=True, slots=True)
class GetGroups(Request[dict[str, GroupConfig]]):
    """Ask for the settings of all groups of a broker."""

    code: ClassVar[int] = 201
    name: ClassVar[str] = "GET_ALL_SUBSCRIPTIONGROUP_CONFIG"

    def read(self, answer: Frame) -> dict[str, GroupConfig]:
        """Read the settings, by group."""
        table = parse_body(answer).read_table("subscriptionGroupTable")
        nodes = {str(group): Node(found, f"group {group}") for group, found in table.items()}
        return {group: _read_config(group, node) for group, node in nodes.items()}


def _read_config(group: str, node: Node) -> GroupConfig:
    return GroupConfig(
        group,
        is_enabled=bool(node.value.get("consumeEnable", True)),
        is_ordered=bool(node.value.get("consumeMessageOrderly", False)),
        most_retries=node.read_number("retryMaxTimes", MOST_RETRIES),
    )


@dataclass(frozen=True, slots=True)
class SetRequestMode(Done):
    """Advise RocketMQ's own consumers of a group whether to pull or to pop a topic."""

    code: ClassVar[int] = 401
    name: ClassVar[str] = "SET_MESSAGE_REQUEST_MODE"
    group: str
    topic: str
    mode: RequestMode

    def list_fields(self) -> dict[str, str]:
        """Leave the header empty; everything is in the body."""
        return {}

    def encode_body(self) -> bytes:
        """Encode the advice. With POP, each consumer may pop all queues."""
        body: dict[str, Any] = {
            "topic": self.topic,
            "consumerGroup": self.group,
            "mode": self.mode.value,
            "popShareQueueNum": 0,
        }
        return to_json(body)
