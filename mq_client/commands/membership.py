"""Requests about the members of a group: heartbeats, lists, locks, RocketMQ's own assignment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mq_client import errors
from mq_client.commands.base import (
    Done,
    Node,
    Request,
    parse_body,
    read_queue,
    send_as,
    to_json,
)
from mq_client.filters import Filter
from mq_client.frames import Frame
from mq_client.values import GroupMember, Members, MessageQueue

CONSUMER_NOT_ONLINE = 206


@dataclass(frozen=True, slots=True)
class GetReaders(Request[list[str]]):
    """Ask which groups subscribe to a topic, or have committed offsets for it."""

    code: ClassVar[int] = 300
    name: ClassVar[str] = "QUERY_TOPIC_CONSUME_BY_WHO"
    topic: str

    def read(self, answer: Frame) -> list[str]:
        """Read the names, sorted."""
        return sorted(map(str, parse_body(answer).read_list("groupList")))


@dataclass(frozen=True, slots=True)
class GetMemberIds(Request[list[str]]):
    """Ask for the client ids of a group's members."""

    code: ClassVar[int] = 38
    name: ClassVar[str] = "GET_CONSUMER_LIST_BY_GROUP"
    group: str = send_as("consumerGroup")

    def read(self, answer: Frame) -> list[str]:
        """Read the ids, sorted, each once."""
        return sorted(set(map(str, parse_body(answer).read_list("consumerIdList"))))

    def make_refusal(self, answer: Frame, address: str) -> errors.AnswerError:
        """Recognize a group without members, which RocketMQ reports as a system error."""
        if answer.code == 1 and "no consumer for this group" in (answer.remark or ""):
            return errors.GroupEmptyError(self.describe(), address, answer.code, answer.remark)
        return errors.make_refusal(self.describe(), address, answer.code, answer.remark)


@dataclass(frozen=True, slots=True)
class GetMembers(Request[Members]):
    """Ask for the members of a group and their subscriptions."""

    code: ClassVar[int] = 203
    name: ClassVar[str] = "GET_CONSUMER_CONNECTION_LIST"
    group: str = send_as("consumerGroup")

    def read(self, answer: Frame) -> Members:
        """Read connections and subscriptions."""
        body = parse_body(answer)
        found = {_read_member(node) for node in body.read_nodes("connectionSet")}
        subscriptions = {
            str(topic): Node(value, f"the subscription of {topic}").read_optional_text("subString")
            or ""
            for topic, value in body.read_table("subscriptionTable").items()
        }
        return Members(
            self.group,
            tuple(sorted(found, key=lambda member: (member.client_id, member.address))),
            body.read_optional_text("consumeType"),
            body.read_optional_text("messageModel"),
            subscriptions,
        )

    def make_refusal(self, answer: Frame, address: str) -> errors.AnswerError:
        """Recognize a group without members."""
        if answer.code == CONSUMER_NOT_ONLINE:
            return errors.GroupEmptyError(self.describe(), address, answer.code, answer.remark)
        return errors.make_refusal(self.describe(), address, answer.code, answer.remark)


def _read_member(node: Node) -> GroupMember:
    return GroupMember(
        node.read_text("clientId"),
        node.read_optional_text("clientAddr") or "",
        node.read_optional_text("language") or "",
        node.read_number("version", 0),
    )


@dataclass(frozen=True, slots=True)
class Heartbeat(Done):
    """Report that a client of a group is alive, with its subscriptions."""

    code: ClassVar[int] = 34
    name: ClassVar[str] = "HEART_BEAT"
    client_id: str = send_as("")
    group: str = send_as("")
    subscriptions: tuple[tuple[str, Filter], ...] = send_as("", default=())

    def encode_body(self) -> bytes:
        """Encode the client as a consumer that pulls."""
        consumer: dict[str, Any] = {
            "groupName": self.group,
            "consumeType": "CONSUME_ACTIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "unitMode": False,
            "subscriptionDataSet": [
                wanted.to_subscription(topic) for topic, wanted in self.subscriptions
            ],
        }
        return to_json(
            {"clientID": self.client_id, "producerDataSet": [], "consumerDataSet": [consumer]}
        )


@dataclass(frozen=True, slots=True)
class Unregister(Done):
    """Report that a client leaves a group."""

    code: ClassVar[int] = 35
    name: ClassVar[str] = "UNREGISTER_CLIENT"
    client_id: str = send_as("clientID")
    group: str = send_as("consumerGroup")


@dataclass(frozen=True, slots=True)
class _QueueLock:
    group: str = send_as("")
    client_id: str = send_as("")
    queues: tuple[MessageQueue, ...] = send_as("")

    def encode_body(self) -> bytes:
        """Encode the queues."""
        return to_json(
            {
                "consumerGroup": self.group,
                "clientId": self.client_id,
                "mqSet": [_describe_queue(queue) for queue in self.queues],
            }
        )


def _describe_queue(queue: MessageQueue) -> Mapping[str, Any]:
    return {"topic": queue.topic, "brokerName": queue.broker, "queueId": queue.id}


@dataclass(frozen=True, slots=True)
class LockQueues(_QueueLock, Request[list[MessageQueue]]):
    """Lock queues for a client for a minute. The broker records locks but does not enforce them."""

    code: ClassVar[int] = 41
    name: ClassVar[str] = "LOCK_BATCH_MQ"

    def read(self, answer: Frame) -> list[MessageQueue]:
        """Read the queues that the client has locked. Queues locked by others are missing."""
        return sorted(map(read_queue, parse_body(answer).read_nodes("lockOKMQSet")))


@dataclass(frozen=True, slots=True)
class UnlockQueues(_QueueLock, Done):
    """Release locks."""

    code: ClassVar[int] = 42
    name: ClassVar[str] = "UNLOCK_BATCH_MQ"


@dataclass(frozen=True, slots=True)
class GetAssignment(Request[list[MessageQueue]]):
    """Ask the broker which queues RocketMQ itself would assign to a member."""

    code: ClassVar[int] = 400
    name: ClassVar[str] = "QUERY_ASSIGNMENT"
    group: str = send_as("")
    topic: str = send_as("")
    client_id: str = send_as("")
    strategy: str = send_as("", default="AVG")

    def encode_body(self) -> bytes:
        """Encode the group, the topic and the member."""
        return to_json(
            {
                "topic": self.topic,
                "consumerGroup": self.group,
                "clientId": self.client_id,
                "strategyName": self.strategy,
                "messageModel": "CLUSTERING",
            }
        )

    def read(self, answer: Frame) -> list[MessageQueue]:
        """Read the queues."""
        entries = parse_body(answer).read_nodes("messageQueueAssignments")
        places = [Node(entry.value.get("messageQueue"), "a messageQueue") for entry in entries]
        return sorted(map(read_queue, places))
