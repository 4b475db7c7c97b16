"""What is asked of name servers, and how topics are made and changed on brokers."""

from dataclasses import dataclass
from typing import Any, ClassVar

from mq_client import errors
from mq_client.commands.base import Done, Node, Request, as_json, parsed, wire
from mq_client.frames import Frame
from mq_client.values import BrokerRoute, Cluster, Route, TopicConfig


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
        data = {node.text("brokerName"): node for node in body.nodes("brokerDatas")}
        queues = sorted(body.nodes("queueDatas"), key=lambda node: node.text("brokerName"))
        brokers = tuple(_broker_route(node, data.get(node.text("brokerName"))) for node in queues)
        return Route(self.topic, brokers, body.value)


def _broker_route(queues: Node, data: Node | None) -> BrokerRoute:
    return BrokerRoute(
        broker=queues.text("brokerName"),
        cluster=(data and data.maybe_text("cluster")) or "",
        addresses=addresses(data) if data else {},
        read_queues=queues.number("readQueueNums"),
        write_queues=queues.number("writeQueueNums"),
        perm=queues.number("perm"),
        zone=(data and data.maybe_text("zoneName")) or None,
    )


def addresses(data: Node) -> dict[int, str]:
    """Read addresses by broker id, the master's first."""
    try:
        table = data.table("brokerAddrs").items()
        return dict(sorted((int(number), str(address)) for number, address in table))
    except (TypeError, ValueError) as error:
        raise errors.ProtocolError("a broker id in brokerAddrs is no number") from error


@dataclass(frozen=True, slots=True)
class GetCluster(Request[Cluster]):
    """Ask a name server for all brokers."""

    code: ClassVar[int] = 106
    name: ClassVar[str] = "GET_BROKER_CLUSTER_INFO"

    def read(self, answer: Frame) -> Cluster:
        """Read the two tables."""
        body = parsed(answer)
        groups = body.table("clusterAddrTable").items()
        brokers = body.table("brokerAddrTable").items()
        return Cluster(
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
