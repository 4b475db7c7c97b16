"""Find topics and brokers; make and delete topics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from mq_client import errors, flows
from mq_client.commands import cluster, consuming
from mq_client.commands.base import Request
from mq_client.directory import Directory
from mq_client.flows import Flow
from mq_client.values import (
    MASTER_ID,
    WRITE,
    BrokerMap,
    BrokerRoute,
    MessageQueue,
    Route,
    TopicConfig,
)

Value = TypeVar("Value")
OF_ROCKETMQ = frozenset(
    {
        "BenchmarkTest", "CHECKPOINT_TOPIC", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX",
        "SELF_TEST_TOPIC", "TBW102", "TRANS_CHECK_MAX_TIME_TOPIC",
    }
)  # fmt: skip
PREFIXES_OF_ROCKETMQ = ("%RETRY%", "%DLQ%", "RMQ_SYS_", "rmq_sys_")


def ask_name_server(directory: Directory, request: Request[Value]) -> Flow[Value]:
    """Ask one name server after the other until one answers."""
    failures = []
    for address in list(directory.name_servers):
        try:
            answer = yield from flows.ask(address, request, directory.times.answer)
        except errors.UnavailableError as error:
            failures.append(str(error))
            continue
        directory.trust(address)
        return answer
    raise errors.NoNameServerError(
        f"none of {len(failures)} name servers answered: {'; '.join(failures)}"
    )


def route(directory: Directory, topic: str, max_age: float | None = None) -> Flow[Route]:
    """Find a topic's queues. `max_age` 0 asks anew; without it the directory's age counts."""
    age = directory.times.route_age if max_age is None else max_age
    known = directory.route(topic, age) if age > 0 else None
    if known is not None:
        return known
    found = yield from ask_name_server(directory, cluster.GetRoute(topic))
    directory.note(found)
    return found


def usable_route(directory: Directory, topic: str, max_age: float | None = None) -> Flow[Route]:
    """
    Find a topic's queues; while no name server knows them, the last route known has to do.

    One that has just restarted knows no topic before the brokers have told it, every 30 s.
    """
    try:
        return (yield from route(directory, topic, max_age))
    except (errors.NoNameServerError, errors.TopicUnknownError):
        last = directory.last_route(topic)
        if last is None:
            raise
        directory.note(last)  # so that not every call waits for the name servers
        return last


def topics(directory: Directory) -> Flow[list[str]]:
    """List all topics of the cluster, those of RocketMQ itself included."""
    return (yield from ask_name_server(directory, cluster.GetTopics()))


def users_topics(directory: Directory) -> Flow[list[str]]:
    """List the topics without RocketMQ's own: retries, dead letters, brokers' names."""
    known = yield from brokers(directory)
    replies = (f"{name}_REPLY_TOPIC" for name in known.clusters)
    own = {*known.brokers, *known.clusters, *replies, *OF_ROCKETMQ}
    return [
        name
        for name in (yield from topics(directory))
        if name not in own and not name.startswith(PREFIXES_OF_ROCKETMQ)
    ]


def brokers(directory: Directory) -> Flow[BrokerMap]:
    """List all brokers."""
    return (yield from ask_name_server(directory, cluster.GetCluster()))


@dataclass(frozen=True, slots=True)
class BrokerChoice:
    """A broker of a topic, and which of its group is meant. It is looked up at each try."""

    topic: str
    broker: str
    broker_id: int = MASTER_ID

    @classmethod
    def of(cls, queue: MessageQueue, broker_id: int = MASTER_ID) -> "BrokerChoice":
        """Find the broker of a queue."""
        return cls(queue.topic, queue.broker, broker_id)


def ask_broker(directory: Directory, place: BrokerChoice, request: Request[Value]) -> Flow[Value]:
    """Ask a broker; if it is out of reach, ask the name server where it is now, and once more."""
    try:
        address = yield from address_of(directory, place)
        return (yield from flows.ask(address, request, directory.times.answer))
    except errors.UnavailableError as first:
        try:
            address = yield from address_of(directory, place, max_age=0)
            return (yield from flows.ask(address, request, directory.times.answer))
        except errors.UnavailableError as second:
            second.preface(f"tried twice, first: {first}; then")
            raise


def address_of(
    directory: Directory, place: BrokerChoice, max_age: float | None = None
) -> Flow[str]:
    """Look up where a broker answers."""
    found = (yield from usable_route(directory, place.topic, max_age)).broker(place.broker)
    address = found.address(place.broker_id) if found else None
    if address is None:
        raise errors.NoBrokerError(
            f"topic {place.topic!r}: the name server knows no address of {place.broker!r} now"
        )
    return address


def is_master(directory: Directory, queue: MessageQueue, address: str) -> Flow[bool]:
    """Tell whether the master of a queue answers there, by the last route."""
    route = directory.last_route(queue.topic)
    broker = route.broker(queue.broker) if route else None
    if broker is None or broker.master != address:
        return False
    return (yield from _true_master(directory, broker)) == address


def master(directory: Directory, topic: str, name: str) -> Flow[str]:
    """Look up where the master of a broker answers. `NoBrokerError` while it has none."""
    found = (yield from usable_route(directory, topic, max_age=0)).broker(name)
    address = (yield from _true_master(directory, found)) if found else None
    if address is None:
        raise errors.NoBrokerError(f"topic {topic!r}: {name!r} has no master now")
    return address


def _true_master(directory: Directory, broker: BrokerRoute) -> Flow[str | None]:
    """
    Tell where the master is.

    A name server with `supportActingMaster` writes a slave down as the master when that is gone;
    then the topics cannot be written. Its list of all brokers tells the truth.
    """
    if broker.perm & WRITE:
        return broker.master
    known = (yield from brokers(directory)).brokers
    return known.get(broker.broker, {}).get(MASTER_ID)


def masters(directory: Directory, topic: str) -> Flow[dict[str, str]]:
    """Look up the brokers of a topic; where there is no master, a slave stands in."""
    found = yield from usable_route(directory, topic)
    by_name = {broker.broker: broker.address() for broker in found.brokers}
    return {name: address for name, address in by_name.items() if address is not None}


def ask_brokers(
    directory: Directory, topic: str, request: Request[Value]
) -> Flow[dict[str, Value | errors.MqError]]:
    """Ask all brokers of a topic side by side; by name its answer, or the error."""
    addresses = yield from masters(directory, topic)
    return (yield from flows.ask_all(addresses, request, directory.times.answer))


def put_topics(
    directory: Directory, configs: Sequence[TopicConfig], on: Sequence[str] | None = None
) -> Flow[None]:
    """
    Make topics, or change their counts and perm, on these brokers or on all.

    The first broker that refuses ends it; calling again brings the rest about.
    """
    if isinstance(on, str):
        raise errors.UsageError(f"on={on!r}: it takes a list of brokers, as [{on!r}]")
    known = (yield from brokers(directory)).brokers
    missing = sorted(set(on or ()) - set(known))
    if missing:
        raise errors.NoBrokerError(f"the name server knows no broker {', '.join(missing)}")
    found = {name: known[name].get(MASTER_ID) for name in (known if on is None else on)}
    addresses = {name: address for name, address in found.items() if address is not None}
    if not addresses:
        raise errors.NoBrokerError("the name server knows no broker with a master now")
    request = cluster.PutTopics(tuple(configs))
    answers = yield from flows.ask_all(addresses, request, directory.times.answer)
    flows.all_good(answers)


def delete_topic(directory: Directory, topic: str) -> Flow[None]:
    """
    Delete a topic and its messages on all its brokers, and remove it from the name servers.

    A broker out of reach would bring it back, so that is an error; calling again does the rest.
    """
    found = yield from route(directory, topic, max_age=0)
    if lost := [broker.broker for broker in found.brokers if broker.master is None]:
        raise errors.NoBrokerError(
            f"topic {topic!r}: {', '.join(lost)} has no master now, and would keep the topic"
        )
    addresses = {broker.broker: broker.master or "" for broker in found.brokers}
    request = cluster.DeleteTopic(topic)
    answers = yield from flows.ask_all(addresses, request, directory.times.answer)
    for broker, answer in answers.items():
        if isinstance(answer, errors.UnexpectedError):
            yield from _see_it_deleted(directory, addresses[broker], topic, answer)
        elif isinstance(answer, errors.MqError):
            raise answer
    servers = {address: address for address in directory.name_servers}
    flows.all_good(
        (yield from flows.ask_all(servers, cluster.ForgetTopic(topic), directory.times.answer))
    )
    directory.forget(topic)


def _see_it_deleted(
    directory: Directory, address: str, topic: str, error: errors.MqError
) -> Flow[None]:
    """Check that the topic is gone: a broker without timed messages fails after deleting it."""
    request = consuming.GetTopicOffsets(topic)
    try:
        yield from flows.ask(address, request, directory.times.answer)
    except errors.TopicUnknownError:
        return
    raise error
