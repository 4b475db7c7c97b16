"""Requests to name servers, and requests that create and change topics on brokers."""

from dataclasses import dataclass
from typing import Any, ClassVar

from mq_client import errors
from mq_client.checks import INT32_MAX
from mq_client.commands.base import Done, Node, Request, parse_body, send_as, to_json
from mq_client.frames import Frame
from mq_client.values import BrokerMap, BrokerRoute, Route, TopicConfig


@dataclass(frozen=True, slots=True)
class GetRoute(Request[Route]):
    """Ask a name server for a topic's route."""

    code: ClassVar[int] = 105
    name: ClassVar[str] = "GET_ROUTEINFO_BY_TOPIC"
    topic: str
    accept_standard_json_only: bool = True

    def read(self, answer: Frame) -> Route:
        """Combine the queues with the addresses of their brokers, by broker name."""
        body = parse_body(answer)
        data, queues = _index_by_broker(body, "brokerDatas"), _index_by_broker(body, "queueDatas")
        brokers = tuple(
            _read_broker(name, queues[name], data.get(name))
            for name in sorted(queues, key=_order_as_java)
        )
        return Route(self.topic, brokers, bool(body.read_table("topicQueueMappingByBroker")))


def _index_by_broker(body: Node, name: str) -> dict[str, Node]:
    """Read a list with an entry for each broker. A missing list is an error, not an empty list."""
    if body.value.get(name) is None:
        raise errors.ProtocolError(f"{name} is missing in the route of a topic")
    found: dict[str, Node] = {}
    for node in body.read_nodes(name):
        broker = node.read_text("brokerName")
        if found.setdefault(broker, node) is not node:
            raise errors.ProtocolError(f"{name} lists broker {broker!r:.100} twice")
    return found


def _order_as_java(text: str) -> bytes:
    """Make a key that sorts by UTF-16 units as in RocketMQ: all clients need the same order."""
    return text.encode("utf-16-be", "surrogatepass")


def _read_broker(name: str, queues: Node, data: Node | None) -> BrokerRoute:
    return BrokerRoute(
        broker=name,
        cluster=(data and data.read_optional_text("cluster")) or "",
        addresses=read_addresses(data) if data else {},
        read_queues=_read_count(name, queues, "readQueueNums"),
        write_queues=_read_count(name, queues, "writeQueueNums"),
        perm=_read_count(name, queues, "perm"),
        zone=(data and data.read_optional_text("zoneName")) or None,
    )


def _read_count(broker: str, queues: Node, name: str) -> int:
    count = queues.read_number(name)
    if not 0 <= count <= INT32_MAX:
        raise errors.ProtocolError(
            f"{name} of broker {broker!r:.100} must be from 0 to {INT32_MAX}"
        )
    return count


def read_addresses(data: Node) -> dict[int, str]:
    """Read addresses by broker id, the master's first. Ids may be numbers or strings."""
    table = data.read_table("brokerAddrs")
    try:
        found = dict(sorted((int(number), str(address)) for number, address in table.items()))
    except (TypeError, ValueError) as error:
        raise errors.ProtocolError("a broker id in brokerAddrs is not a number") from error
    if len(found) < len(table):
        raise errors.ProtocolError("brokerAddrs has two addresses for one broker id")
    return found


@dataclass(frozen=True, slots=True)
class GetCluster(Request[BrokerMap]):
    """Ask a name server for all brokers."""

    code: ClassVar[int] = 106
    name: ClassVar[str] = "GET_BROKER_CLUSTER_INFO"

    def read(self, answer: Frame) -> BrokerMap:
        """Read the tables of clusters and of addresses."""
        body = parse_body(answer)
        groups = body.read_table("clusterAddrTable").items()
        brokers = body.read_table("brokerAddrTable").items()
        return BrokerMap(
            {str(cluster): tuple(sorted(map(str, names or ()))) for cluster, names in groups},
            {str(name): read_addresses(Node(data, f"broker {name}")) for name, data in brokers},
        )


@dataclass(frozen=True, slots=True)
class GetTopics(Request[list[str]]):
    """Ask a name server for the names of all topics."""

    code: ClassVar[int] = 206
    name: ClassVar[str] = "GET_ALL_TOPIC_LIST_FROM_NAMESERVER"

    def read(self, answer: Frame) -> list[str]:
        """Read the names, sorted."""
        return sorted(map(str, parse_body(answer).read_list("topicList")))


@dataclass(frozen=True, slots=True)
class GetBrokerSettings(Request[dict[str, str]]):
    """Ask a broker for its settings."""

    code: ClassVar[int] = 26
    name: ClassVar[str] = "GET_BROKER_CONFIG"

    def read(self, answer: Frame) -> dict[str, str]:
        """Read the lines, each with a name and a value."""
        lines = bytes(answer.body).decode("utf-8", "replace").splitlines()
        return {name.strip(): value.strip() for name, _, value in (x.partition("=") for x in lines)}


@dataclass(frozen=True, slots=True)
class PutTopics(Done):
    """Create topics on a broker, or change their numbers of queues, in one call."""

    code: ClassVar[int] = 18
    name: ClassVar[str] = "UPDATE_AND_CREATE_TOPIC_LIST"
    topics: tuple[TopicConfig, ...] = send_as("")

    def encode_body(self) -> bytes:
        """Encode the settings of each topic."""
        return to_json({"topicConfigList": [_describe_topic(topic) for topic in self.topics]})

    def describe(self) -> str:
        """Name the request and its topics, for errors."""
        return f"{self.name} {', '.join(topic.topic for topic in self.topics)}"


def _describe_topic(topic: TopicConfig) -> dict[str, Any]:
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
    """Delete a topic on a broker, with its messages and committed offsets."""

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
    """Change settings of a running broker. The broker rewrites its settings file."""

    code: ClassVar[int] = 25
    name: ClassVar[str] = "UPDATE_BROKER_CONFIG"
    settings: tuple[tuple[str, str], ...] = send_as("")

    def encode_body(self) -> bytes:
        """Write `name=value` lines."""
        return "".join(f"{name}={value}\n" for name, value in self.settings).encode()


@dataclass(frozen=True, slots=True)
class GetRuntimeInfo(Request[dict[str, str]]):
    """Ask a broker for its state. This needs no topic, so it can also test if a broker is ready."""

    code: ClassVar[int] = 28
    name: ClassVar[str] = "GET_BROKER_RUNTIME_INFO"

    def read(self, answer: Frame) -> dict[str, str]:
        """Read the table."""
        table = parse_body(answer).read_table("table").items()
        return {str(name): str(value) for name, value in table}
