"""Find topics and brokers. Create and delete topics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from mq_client import errors, flows
from mq_client.commands import cluster, offsets
from mq_client.commands.base import Request
from mq_client.directory import Directory
from mq_client.flows import Flow
from mq_client.values import (
    DLQ_PREFIX,
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
PREFIXES_OF_ROCKETMQ = ("%RETRY%", DLQ_PREFIX, "RMQ_SYS_", "rmq_sys_")


def ask_name_server(directory: Directory, request: Request[Value]) -> Flow[Value]:
    """Ask the name servers one after another until one answers."""
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


def find_route(directory: Directory, topic: str, max_age: float | None = None) -> Flow[Route]:
    """Find a topic's queues. With `max_age=0`, ask a name server. Default: `Times.route_age`."""
    age = directory.times.route_age if max_age is None else max_age
    known = directory.find_route(topic, age) if age > 0 else None
    if known is not None:
        return known
    found = yield from ask_name_server(directory, cluster.GetRoute(topic))
    directory.note(found)
    return found


def find_usable_route(
    directory: Directory, topic: str, max_age: float | None = None
) -> Flow[Route]:
    """
    Find a topic's queues. While no name server knows them, return the last known route.

    A restarted name server knows no topics until the brokers register again, every 30 s.
    """
    try:
        return (yield from find_route(directory, topic, max_age))
    except (errors.NoNameServerError, errors.TopicUnknownError):
        last = directory.find_last_route(topic)
        if last is None:
            raise
        directory.note(last)  # so that later calls need not wait for the name servers
        return last


def list_topics(directory: Directory) -> Flow[list[str]]:
    """List all topics of the cluster, including RocketMQ's own."""
    return (yield from ask_name_server(directory, cluster.GetTopics()))


def list_user_topics(directory: Directory) -> Flow[list[str]]:
    """List the topics, except RocketMQ's own, such as those of retries, dead letters, brokers."""
    known = yield from list_brokers(directory)
    replies = (f"{name}_REPLY_TOPIC" for name in known.clusters)
    own = {*known.brokers, *known.clusters, *replies, *OF_ROCKETMQ}
    return [
        name
        for name in (yield from list_topics(directory))
        if name not in own and not name.startswith(PREFIXES_OF_ROCKETMQ)
    ]


def list_brokers(directory: Directory) -> Flow[BrokerMap]:
    """List all brokers."""
    return (yield from ask_name_server(directory, cluster.GetCluster()))


@dataclass(frozen=True, slots=True)
class BrokerChoice:
    """A broker of a topic, by name and id. Its address is looked up for each request."""

    topic: str
    broker: str
    broker_id: int = MASTER_ID

    @classmethod
    def from_queue(cls, queue: MessageQueue, broker_id: int = MASTER_ID) -> "BrokerChoice":
        """Name the broker of a queue."""
        return cls(queue.topic, queue.broker, broker_id)


def ask_broker(directory: Directory, place: BrokerChoice, request: Request[Value]) -> Flow[Value]:
    """Send a request to a broker. If it does not answer, look up its address and retry once."""
    try:
        address = yield from find_address(directory, place)
        return (yield from flows.ask(address, request, directory.times.answer))
    except errors.UnavailableError as first:
        try:
            address = yield from find_address(directory, place, max_age=0)
            return (yield from flows.ask(address, request, directory.times.answer))
        except errors.UnavailableError as second:
            second.preface(f"failed twice: first {first}; then")
            raise


def find_address(
    directory: Directory, place: BrokerChoice, max_age: float | None = None
) -> Flow[str]:
    """
    Find the address of a broker.

    If the route has lost the broker, it may be running all the same (`Directory.list_unlisted`).
    """
    found = (yield from find_usable_route(directory, place.topic, max_age)).find_broker(
        place.broker
    )
    address = found.find_address(place.broker_id) if found else None
    if address is None:
        address = yield from _find_unlisted(directory, place)
    if address is None:
        raise errors.NoBrokerError(
            f"topic {place.topic!r}: the name server knows no address of {place.broker!r} now"
        )
    return address


def _find_unlisted(directory: Directory, place: BrokerChoice) -> Flow[str | None]:
    """Find the last address of a broker, if the broker answers there, and not another one."""
    for each in directory.list_unlisted(place.topic):
        address = each.find_address(place.broker_id)
        if each.broker == place.broker and address is not None:
            request = offsets.GetTopicOffsets(place.topic)
            try:
                stored = yield from flows.ask(address, request, directory.times.answer)
            except errors.TopicUnknownError:
                return None
            return address if any(q.broker == place.broker for q in stored) else None
    return None


def is_master(directory: Directory, queue: MessageQueue, address: str) -> Flow[bool]:
    """Return whether this is the address of the queue's master, by the last known route."""
    route = directory.find_last_route(queue.topic)
    broker = route.find_broker(queue.broker) if route else None
    if broker is None or broker.master != address:
        return False
    return (yield from _find_true_master(directory, broker)) == address


def find_master(
    directory: Directory, topic: str, name: str, max_age: float | None = 0
) -> Flow[str]:
    """Find the address of a broker's master. Raise a `NoBrokerError` if there is none now."""
    found = (yield from find_usable_route(directory, topic, max_age)).find_broker(name)
    address = (yield from _find_true_master(directory, found)) if found else None
    if address is None:
        raise errors.NoBrokerError(f"topic {topic!r}: {name!r} has no master now")
    return address


def _find_true_master(directory: Directory, broker: BrokerRoute) -> Flow[str | None]:
    """
    Find the address of the real master.

    With `supportActingMaster`, a name server lists a slave as the master while the master is down.
    Then the topics are not writable. The name server's list of all brokers has the real master.
    """
    if broker.perm & WRITE:
        return broker.master
    known = (yield from list_brokers(directory)).brokers
    return known.get(broker.broker, {}).get(MASTER_ID)


def list_masters(directory: Directory, topic: str) -> Flow[dict[str, str]]:
    """Find the addresses of a topic's brokers: the master's, or a slave's if there is no master."""
    found = yield from find_usable_route(directory, topic)
    by_name = {broker.broker: broker.find_address() for broker in found.brokers}
    return {name: address for name, address in by_name.items() if address is not None}


def ask_brokers(
    directory: Directory, topic: str, request: Request[Value]
) -> Flow[dict[str, Value | errors.MqError]]:
    """Ask all brokers of a topic concurrently. Return answers and errors by broker."""
    addresses = yield from list_masters(directory, topic)
    return (yield from flows.ask_all(addresses, request, directory.times.answer))


def ask_masters(
    directory: Directory, topic: str, request: Request[Value]
) -> Flow[dict[str, Value | errors.MqError]]:
    """Ask the masters of a topic concurrently. Return answers and errors by broker."""
    found = yield from find_usable_route(directory, topic)
    addresses = {each.broker: each.master for each in found.brokers if each.master is not None}
    return (yield from flows.ask_all(addresses, request, directory.times.answer))


def find_masters(directory: Directory, on: Sequence[str] | None) -> Flow[dict[str, str]]:
    """Find the addresses of the masters of these brokers, or of all brokers that have one now."""
    if isinstance(on, str):
        raise errors.UsageError(f"on={on!r} is not a list of brokers, such as [{on!r}]")
    known = (yield from list_brokers(directory)).brokers
    missing = sorted(set(on or ()) - set(known))
    if missing:
        raise errors.NoBrokerError(f"the name server knows no broker {', '.join(missing)}")
    found = {name: known[name].get(MASTER_ID) for name in (known if on is None else on)}
    addresses = {name: address for name, address in found.items() if address is not None}
    if not addresses:
        raise errors.NoBrokerError("the name server knows no broker with a master now")
    return addresses


def put_topics(
    directory: Directory, configs: Sequence[TopicConfig], on: Sequence[str] | None = None
) -> Flow[None]:
    """
    Create topics, or change their numbers of queues and perm, on these brokers or on all brokers.

    If a broker refuses, other brokers may already have changed the topics. The call can be
    repeated.
    """
    addresses = yield from find_masters(directory, on)
    request = cluster.PutTopics(tuple(configs))
    answers = yield from flows.ask_all(addresses, request, directory.times.answer)
    flows.require_all(answers)


def delete_topic(directory: Directory, topic: str) -> Flow[None]:
    """
    Delete a topic and its messages on all its brokers, and remove it from the name servers.

    The call fails if a broker has no master now, because that broker would restore the topic later.
    The call can be repeated.
    """
    found = yield from find_route(directory, topic, max_age=0)
    if lost := [broker.broker for broker in found.brokers if broker.master is None]:
        raise errors.NoBrokerError(
            f"topic {topic!r} is not deleted: {', '.join(lost)} has no master now and would "
            "restore the topic later; try again when the master is back"
        )
    addresses = {broker.broker: broker.master or "" for broker in found.brokers}
    request = cluster.DeleteTopic(topic)
    answers = yield from flows.ask_all(addresses, request, directory.times.answer)
    for broker, answer in answers.items():
        if isinstance(answer, errors.UnexpectedError):
            yield from _check_deleted(directory, addresses[broker], topic, answer)
        elif isinstance(answer, errors.MqError):
            raise answer
    servers = {address: address for address in directory.name_servers}
    flows.require_all(
        (yield from flows.ask_all(servers, cluster.ForgetTopic(topic), directory.times.answer))
    )
    directory.forget(topic)


def _check_deleted(
    directory: Directory, address: str, topic: str, error: errors.MqError
) -> Flow[None]:
    """Check that the topic is gone: some brokers delete a topic and then answer with an error."""
    request = offsets.GetTopicOffsets(topic)
    try:
        yield from flows.ask(address, request, directory.times.answer)
    except errors.TopicUnknownError:
        return
    raise error
