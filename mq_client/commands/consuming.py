"""What consumers ask of brokers: messages, offsets, lag, members, locks, assignments."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mq_client import errors, filters
from mq_client.commands.base import (
    Done,
    Node,
    Request,
    as_json,
    node_of_key,
    parsed,
    whole,
    wire,
)
from mq_client.filters import Filter
from mq_client.frames import Frame
from mq_client.values import GroupMember, Lag, Members, MessageQueue, Offsets, Pulled, PullStatus

SUSPEND, SUBSCRIPTION_GIVEN = 2, 4
"""Bits of a pull's sysFlag."""


@dataclass(frozen=True, slots=True)
class Pull(Request[Pulled]):
    """Ask for messages from an offset on, and wait up to `suspend_ms` where there are none."""

    code: ClassVar[int] = 11
    name: ClassVar[str] = "PULL_MESSAGE"
    good_codes: ClassVar[frozenset[int]] = frozenset(status.value for status in PullStatus)
    group: str
    topic: str
    queue_id: int
    offset: int
    most: int
    most_bytes: int
    suspend_ms: int = 0
    wanted: Filter = filters.EVERYTHING

    def fields(self) -> dict[str, str]:
        """Give the subscription along, so no heartbeat need come before."""
        return {
            "consumerGroup": self.group,
            "topic": self.topic,
            "queueId": str(self.queue_id),
            "queueOffset": str(self.offset),
            "maxMsgNums": str(self.most),
            "maxMsgBytes": str(self.most_bytes),
            "sysFlag": str(SUBSCRIPTION_GIVEN | (SUSPEND if self.suspend_ms else 0)),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(self.suspend_ms),
            "subscription": self.wanted.expression,
            "subVersion": "0",
            "expressionType": self.wanted.kind,
        }

    def read(self, answer: Frame) -> Pulled:
        """Read where the queue stands; the messages are left as they are."""
        return Pulled(
            PullStatus(answer.code),
            whole(answer, "nextBeginOffset"),
            whole(answer, "minOffset"),
            whole(answer, "maxOffset"),
            whole(answer, "suggestWhichBrokerId"),
            answer.body,
            answer.remark,
        )

    def about(self) -> str:
        """Name the place."""
        return f"{self.name} {self.group} {self.topic} {self.queue_id} from {self.offset}"

    def refusal(self, answer: Frame, address: str) -> errors.AnswerError:
        """Know a store that is closed, as that of a broker that ends, or not readable now."""
        if answer.code == 1 and answer.remark == "store getMessage return null":
            return errors.StoreClosedError(self.about(), address, answer.code, answer.remark)
        return errors.refusal(self.about(), address, answer.code, answer.remark)


@dataclass(frozen=True, slots=True)
class _OffsetRequest(Request[int]):
    topic: str
    queue_id: int

    def read(self, answer: Frame) -> int:
        """Read the offset."""
        return whole(answer, "offset")


@dataclass(frozen=True, slots=True)
class GetMaxOffset(_OffsetRequest):
    """Ask for the offset that the next message will have."""

    code: ClassVar[int] = 30
    name: ClassVar[str] = "GET_MAX_OFFSET"


@dataclass(frozen=True, slots=True)
class GetMinOffset(_OffsetRequest):
    """Ask for the first offset that is still there."""

    code: ClassVar[int] = 31
    name: ClassVar[str] = "GET_MIN_OFFSET"


@dataclass(frozen=True, slots=True)
class SearchOffset(_OffsetRequest):
    """Ask for the first message stored at a time or later."""

    code: ClassVar[int] = 29
    name: ClassVar[str] = "SEARCH_OFFSET_BY_TIMESTAMP"
    timestamp_ms: int = wire("timestamp")


@dataclass(frozen=True, slots=True)
class GetOffset(Request[int]):
    """Ask what a group committed for a queue."""

    code: ClassVar[int] = 14
    name: ClassVar[str] = "QUERY_CONSUMER_OFFSET"
    group: str = wire("consumerGroup")
    topic: str = wire("topic")
    queue_id: int = wire("queueId")
    set_zero_if_not_found: bool = False

    def read(self, answer: Frame) -> int:
        """Read the offset."""
        return whole(answer, "offset")


@dataclass(frozen=True, slots=True)
class CommitOffset(Done):
    """Say which offset a group reads next. The broker takes any, also one that goes back."""

    code: ClassVar[int] = 15
    name: ClassVar[str] = "UPDATE_CONSUMER_OFFSET"
    group: str = wire("consumerGroup")
    topic: str = wire("topic")
    queue_id: int = wire("queueId")
    offset: int = wire("commitOffset")


@dataclass(frozen=True, slots=True)
class GetTopicOffsets(Request[dict[MessageQueue, Offsets]]):
    """Ask what all queues of a topic on this broker hold."""

    code: ClassVar[int] = 202
    name: ClassVar[str] = "GET_TOPIC_STATS_INFO"
    topic: str

    def read(self, answer: Frame) -> dict[MessageQueue, Offsets]:
        """Read the table by queue."""
        return {
            queue: Offsets(
                node.number("minOffset"),
                node.number("maxOffset"),
                node.number("lastUpdateTimestamp", 0),
            )
            for queue, node in _by_queue(parsed(answer))
        }


@dataclass(frozen=True, slots=True)
class GetLag(Request[list[Lag]]):
    """Ask how far a group is behind on all queues of a topic on this broker."""

    code: ClassVar[int] = 208
    name: ClassVar[str] = "GET_CONSUME_STATS"
    group: str = wire("consumerGroup")
    topic: str = wire("topic")

    def read(self, answer: Frame) -> list[Lag]:
        """Read the table by queue."""
        return [
            Lag(
                queue,
                node.number("brokerOffset"),
                node.number("consumerOffset"),
                node.number("lastTimestamp", 0),
            )
            for queue, node in _by_queue(parsed(answer))
        ]


def _by_queue(body: Node) -> Iterable[tuple[MessageQueue, Node]]:
    """Read an offsetTable, whose keys are queues."""
    table = body.table("offsetTable").items()
    found = [(_queue(node_of_key(key, "offsetTable")), value) for key, value in table]
    return [(queue, Node(value, f"the entry of {queue}")) for queue, value in sorted(found)]


def _queue(node: Node) -> MessageQueue:
    return MessageQueue(node.text("topic"), node.text("brokerName"), node.number("queueId"))


@dataclass(frozen=True, slots=True)
class GetReaders(Request[list[str]]):
    """Ask for the groups that read a topic: who subscribes to it now, or has ever committed."""

    code: ClassVar[int] = 300
    name: ClassVar[str] = "QUERY_TOPIC_CONSUME_BY_WHO"
    topic: str

    def read(self, answer: Frame) -> list[str]:
        """Sort their names."""
        return sorted(map(str, parsed(answer).items("groupList")))


@dataclass(frozen=True, slots=True)
class GetMemberIds(Request[list[str]]):
    """Ask for the ids of a group's clients, each once."""

    code: ClassVar[int] = 38
    name: ClassVar[str] = "GET_CONSUMER_LIST_BY_GROUP"
    group: str = wire("consumerGroup")

    def read(self, answer: Frame) -> list[str]:
        """Sort them."""
        return sorted(set(map(str, parsed(answer).items("consumerIdList"))))

    def refusal(self, answer: Frame, address: str) -> errors.AnswerError:
        """Know a group without members, which RocketMQ calls a system error."""
        if answer.code == 1 and "no consumer for this group" in (answer.remark or ""):
            return errors.GroupEmptyError(self.about(), address, answer.code, answer.remark)
        return errors.refusal(self.about(), address, answer.code, answer.remark)


CONSUMER_NOT_ONLINE = 206


@dataclass(frozen=True, slots=True)
class GetMembers(Request[Members]):
    """Ask who is connected for a group, and with which subscriptions."""

    code: ClassVar[int] = 203
    name: ClassVar[str] = "GET_CONSUMER_CONNECTION_LIST"
    group: str = wire("consumerGroup")

    def read(self, answer: Frame) -> Members:
        """Read connections and subscriptions."""
        body = parsed(answer)
        found = {_member(node) for node in body.nodes("connectionSet")}
        subscriptions = {
            str(topic): Node(value, f"the subscription of {topic}").maybe_text("subString") or ""
            for topic, value in body.table("subscriptionTable").items()
        }
        return Members(
            self.group,
            tuple(sorted(found, key=lambda member: (member.client_id, member.address))),
            body.maybe_text("consumeType"),
            body.maybe_text("messageModel"),
            subscriptions,
        )

    def refusal(self, answer: Frame, address: str) -> errors.AnswerError:
        """Know a group without members."""
        if answer.code == CONSUMER_NOT_ONLINE:
            return errors.GroupEmptyError(self.about(), address, answer.code, answer.remark)
        return errors.refusal(self.about(), address, answer.code, answer.remark)


def _member(node: Node) -> GroupMember:
    return GroupMember(
        node.text("clientId"),
        node.maybe_text("clientAddr") or "",
        node.maybe_text("language") or "",
        node.number("version", 0),
    )


@dataclass(frozen=True, slots=True)
class Heartbeat(Done):
    """Say that a client of a group is alive, and what it subscribes to."""

    code: ClassVar[int] = 34
    name: ClassVar[str] = "HEART_BEAT"
    client_id: str = wire("")
    group: str = wire("")
    subscriptions: tuple[tuple[str, Filter], ...] = wire("", default=())

    def body(self) -> bytes:
        """Describe the client as a consumer that pulls."""
        consumer: dict[str, Any] = {
            "groupName": self.group,
            "consumeType": "CONSUME_ACTIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "unitMode": False,
            "subscriptionDataSet": [
                wanted.subscription(topic) for topic, wanted in self.subscriptions
            ],
        }
        return as_json(
            {"clientID": self.client_id, "producerDataSet": [], "consumerDataSet": [consumer]}
        )


@dataclass(frozen=True, slots=True)
class Unregister(Done):
    """Say that a client leaves a group."""

    code: ClassVar[int] = 35
    name: ClassVar[str] = "UNREGISTER_CLIENT"
    client_id: str = wire("clientID")
    group: str = wire("consumerGroup")


@dataclass(frozen=True, slots=True)
class CheckFilter(Done):
    """Ask whether a broker understands a filter: a pull with one that it does not gets all."""

    code: ClassVar[int] = 46
    name: ClassVar[str] = "CHECK_CLIENT_CONFIG"
    group: str
    topic: str
    wanted: Filter

    def fields(self) -> dict[str, str]:
        """Say all in the body."""
        return {}

    def body(self) -> bytes:
        """Describe the filter as heartbeats do."""
        subscription = self.wanted.subscription(self.topic)
        return as_json({"clientId": "", "group": self.group, "subscriptionData": subscription})

    def refusal(self, answer: Frame, address: str) -> errors.AnswerError:
        """Whatever the code, it is about the filter."""
        return errors.SubscriptionError(self.about(), address, answer.code, answer.remark)


@dataclass(frozen=True, slots=True)
class _QueueLock:
    group: str = wire("")
    client_id: str = wire("")
    queues: tuple[MessageQueue, ...] = wire("")

    def body(self) -> bytes:
        """Name the queues."""
        return as_json(
            {
                "consumerGroup": self.group,
                "clientId": self.client_id,
                "mqSet": [_as_message_queue(queue) for queue in self.queues],
            }
        )


def _as_message_queue(queue: MessageQueue) -> Mapping[str, Any]:
    return {"topic": queue.topic, "brokerName": queue.broker, "queueId": queue.id}


@dataclass(frozen=True, slots=True)
class LockQueues(_QueueLock, Request[list[MessageQueue]]):
    """Lock queues for a client, for a minute. The broker does not enforce it: it only remembers."""

    code: ClassVar[int] = 41
    name: ClassVar[str] = "LOCK_BATCH_MQ"

    def read(self, answer: Frame) -> list[MessageQueue]:
        """List those that are now locked; what another client holds is missing."""
        return sorted(map(_queue, parsed(answer).nodes("lockOKMQSet")))


@dataclass(frozen=True, slots=True)
class UnlockQueues(_QueueLock, Done):
    """Give locks back."""

    code: ClassVar[int] = 42
    name: ClassVar[str] = "UNLOCK_BATCH_MQ"


@dataclass(frozen=True, slots=True)
class GetAssignment(Request[list[MessageQueue]]):
    """Ask the broker which queues RocketMQ itself would give a client that heartbeats."""

    code: ClassVar[int] = 400
    name: ClassVar[str] = "QUERY_ASSIGNMENT"
    group: str = wire("")
    topic: str = wire("")
    client_id: str = wire("")
    strategy: str = wire("", default="AVG")

    def body(self) -> bytes:
        """Name the client."""
        return as_json(
            {
                "topic": self.topic,
                "consumerGroup": self.group,
                "clientId": self.client_id,
                "strategyName": self.strategy,
                "messageModel": "CLUSTERING",
            }
        )

    def read(self, answer: Frame) -> list[MessageQueue]:
        """List its queues."""
        entries = parsed(answer).nodes("messageQueueAssignments")
        places = [Node(entry.value.get("messageQueue"), "a messageQueue") for entry in entries]
        return sorted(map(_queue, places))
