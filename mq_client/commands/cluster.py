"""What is asked of name servers, and how topics are made and changed on brokers."""

from dataclasses import dataclass
from typing import Any, ClassVar

from mq_client import errors
from mq_client.checks import INT32_MAX
from mq_client.commands.base import Done, Node, Request, as_json, parsed, wire
from mq_client.frames import Frame
from mq_client.values import BrokerMap, BrokerRoute, Route, TopicConfig


@dataclass(frozen=True, slots=True)
class GetRoute(Request[Route]):
    """Ask a name server where a topic's queues are."""

    code: ClassVar[int] = 105
    name: ClassVar[str] = "GET_ROUTEINFO_BY_TOPIC"
    topic: str
    accept_standard_json_only: bool = True

    def read(self, answer: Frame) -> Route:
        """Join the queues with the addresses of their brokers, in the brokers' order by name."""
        body = parsed(answer)
        data, queues = _by_broker(body, "brokerDatas"), _by_broker(body, "queueDatas")
        brokers = tuple(
            _read_broker(name, queues[name], data.get(name))
            for name in sorted(queues, key=_order_as_java)
        )
        return Route(self.topic, brokers, bool(body.table("topicQueueMappingByBroker")))


def _by_broker(body: Node, name: str) -> dict[str, Node]:
    """Read a list with an entry for each broker. A missing list is refused: it is not empty."""
    if body.value.get(name) is None:
        raise errors.ProtocolError(f"{name} is missing in the route of a topic")
    found: dict[str, Node] = {}
    for node in body.nodes(name):
        broker = node.text("brokerName")
        if found.setdefault(broker, node) is not node:
            raise errors.ProtocolError(f"{name} lists broker {broker!r:.100} twice")
    return found


def _order_as_java(text: str) -> bytes:
    """Order by UTF-16 units, as RocketMQ's clients sort: all of them must see the same order."""
    return text.encode("utf-16-be", "surrogatepass")


def _read_broker(name: str, queues: Node, data: Node | None) -> BrokerRoute:
    return BrokerRoute(
        broker=name,
        cluster=(data and data.maybe_text("cluster")) or "",
        addresses=addresses(data) if data else {},
        read_queues=_read_count(name, queues, "readQueueNums"),
        write_queues=_read_count(name, queues, "writeQueueNums"),
        perm=_read_count(name, queues, "perm"),
        zone=(data and data.maybe_text("zoneName")) or None,
    )


def _read_count(broker: str, queues: Node, name: str) -> int:
    count = queues.number(name)
    if not 0 <= count <= INT32_MAX:
        raise errors.ProtocolError(
            f"{name} of broker {broker!r:.100} must be from 0 to {INT32_MAX}"
        )
    return count


def addresses(data: Node) -> dict[int, str]:
    """Read addresses by broker id, the master's first. An id may be a number or a string."""
    table = data.table("brokerAddrs")
    try:
        found = dict(sorted((int(number), str(address)) for number, address in table.items()))
    except (TypeError, ValueError) as error:
        raise errors.ProtocolError("a broker id in brokerAddrs is no number") from error
    if len(found) < len(table):
        raise errors.ProtocolError("brokerAddrs has two addresses for one broker id")
    return found


@dataclass(frozen=True, slots=True)
class GetCluster(Request[BrokerMap]):
    """Ask a name server for all brokers."""

    code: ClassVar[int] = 106
    name: ClassVar[str] = "GET_BROKER_CLUSTER_INFO"

    def read(self, answer: Frame) -> BrokerMap:
        """Read the two tables."""
        body = parsed(answer)
        groups = body.table("clusterAddrTable").items()
        brokers = body.table("brokerAddrTable").items()
        return BrokerMap(
            {str(cluster): tuple(sorted(map(str, names or ()))) for cluster, names in groups},
            {str(name): addresses(Node(data, f"broker {name}")) for name, data in brokers},
        )


@dataclass(frozen=True, slots=True)
class GetTopics(Request[list[str]]):
    """Ask a name server for the names of all topics."""

    code: ClassVar[int] = 206
    name: ClassVar[str] = "GET_ALL_TOPIC_LIST_FROM_NAMESERVER"

    def read(self, answer: Frame) -> list[str]:
        """Sort the names."""
        return sorted(map(str, parsed(answer).items("topicList")))


@dataclass(frozen=True, slots=True)
class PutTopics(Done):
    """Make topics on a broker, or change their counts, all in one call."""

    code: ClassVar[int] = 18
    name: ClassVar[str] = "UPDATE_AND_CREATE_TOPIC_LIST"
    topics: tuple[TopicConfig, ...] = wire("")

    def body(self) -> bytes:
        """Describe each topic."""
        return as_json({"topicConfigList": [_described(topic) for topic in self.topics]})

    def about(self) -> str:
        """Name the topics."""
        return f"{self.name} {', '.join(topic.topic for topic in self.topics)}"


def _described(topic: TopicConfig) -> dict[str, Any]:
    return {
        "topicName": topic.topic,
        "readQueueNums": topic.read_queues,
        "writeQueueNums": topic.write_queues,
        "perm": topic.perm,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": topic.order,
        "attributes": {f"+{name}": value for name, value in topic.attributes.items()},
    }


@dataclass(frozen=True, slots=True)
class DeleteTopic(Done):
    """Delete a topic on a broker, with its messages and what groups committed for it."""

    code: ClassVar[int] = 215
    name: ClassVar[str] = "DELETE_TOPIC_IN_BROKER"
    topic: str


@dataclass(frozen=True, slots=True)
class ForgetTopic(Done):
    """Remove a topic from a name server."""

    code: ClassVar[int] = 216
    name: ClassVar[str] = "DELETE_TOPIC_IN_NAMESRV"
    topic: str


@dataclass(frozen=True, slots=True)
class PutBrokerConfig(Done):
    """Change settings of a running broker. It writes its whole settings file anew."""

    code: ClassVar[int] = 25
    name: ClassVar[str] = "UPDATE_BROKER_CONFIG"
    settings: tuple[tuple[str, str], ...] = wire("")

    def body(self) -> bytes:
        """Write `name=value` lines."""
        return "".join(f"{name}={value}\n" for name, value in self.settings).encode()


@dataclass(frozen=True, slots=True)
class GetRuntimeInfo(Request[dict[str, str]]):
    """Ask a broker how it fares. It needs no topic, so it also tells that the broker is ready."""

    code: ClassVar[int] = 28
    name: ClassVar[str] = "GET_BROKER_RUNTIME_INFO"

    def read(self, answer: Frame) -> dict[str, str]:
        """Read the table."""
        table = parsed(answer).table("table").items()
        return {str(name): str(value) for name, value in table}
