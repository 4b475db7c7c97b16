"""Members of groups: heartbeats, lists, locks, and RocketMQ's own assignment."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeVar

from mq_client import errors, flows
from mq_client.commands.base import Request
from mq_client.commands.membership import (
    GetAssignment,
    GetMemberIds,
    GetMembers,
    Heartbeat,
    LockQueues,
    UnlockQueues,
    Unregister,
)
from mq_client.directory import Directory
from mq_client.filters import Filter
from mq_client.flows import Flow
from mq_client.operations import routing
from mq_client.operations.routing import BrokerChoice
from mq_client.values import Members, MessageQueue

Value = TypeVar("Value")


def send_heartbeat(
    directory: Directory, group: str, client_id: str, subscriptions: Mapping[str, Filter]
) -> Flow[dict[str, errors.MqError]]:
    """Send a heartbeat to all brokers of the topics, including slaves. Return errors by address."""
    request = Heartbeat(client_id, group, tuple(sorted(subscriptions.items())))
    return (yield from _tell_everyone(directory, subscriptions, request))


def unregister(
    directory: Directory, group: str, client_id: str, topics: Sequence[str]
) -> Flow[dict[str, errors.MqError]]:
    """Report to all brokers of the topics that the client leaves. Return errors by address."""
    request = Unregister(client_id, group)
    return (yield from _tell_everyone(directory, topics, request))


def _tell_everyone(
    directory: Directory, topics: Mapping[str, Filter] | Sequence[str], request: Request[None]
) -> Flow[dict[str, errors.MqError]]:
    addresses = set()
    for topic in topics:
        found = yield from routing.find_usable_route(directory, topic)
        addresses |= {address for broker in found.brokers for address in broker.addresses.values()}
    by_address = {address: address for address in sorted(addresses)}
    answers = yield from flows.ask_all(by_address, request, directory.times.answer)
    return {
        address: outcome
        for address, outcome in answers.items()
        if isinstance(outcome, errors.MqError)
    }


def list_member_ids(directory: Directory, group: str, topic: str) -> Flow[list[str]]:
    """List the client ids of a group's members, as known to the brokers of a topic."""
    answers = yield from routing.ask_brokers(directory, topic, GetMemberIds(group))
    return sorted({name for found in _keep_members(answers) for name in found})


def list_members(directory: Directory, group: str, topic: str) -> Flow[Members]:
    """List a group's members and subscriptions, as known to the brokers of a topic."""
    answers = yield from routing.ask_brokers(directory, topic, GetMembers(group))
    known = _keep_members(answers)
    by_id = {member.client_id: member for seen in known for member in seen.members}
    last = known[-1] if known else None
    return Members(
        group,
        tuple(by_id[name] for name in sorted(by_id)),
        last.consume_type if last else None,
        last.message_model if last else None,
        {topic: text for seen in known for topic, text in seen.subscriptions.items()},
    )


def _keep_members(answers: Mapping[str, Value | errors.MqError]) -> list[Value]:
    """Return the answers, without brokers that know no member. Raise all other errors."""
    return flows.require_all(
        {
            broker: answer
            for broker, answer in answers.items()
            if not isinstance(answer, errors.GroupEmptyError)
        }
    )


def lock(
    directory: Directory, group: str, client_id: str, queues: Sequence[MessageQueue]
) -> Flow[list[MessageQueue]]:
    """Lock queues for a minute. Return the queues locked now. Brokers do not enforce locks."""
    locked: list[MessageQueue] = []
    for place, here in _group_by_broker(queues).items():
        request = LockQueues(group, client_id, tuple(here))
        locked += yield from routing.ask_broker(directory, place, request)
    return sorted(locked)


def unlock(
    directory: Directory, group: str, client_id: str, queues: Sequence[MessageQueue]
) -> Flow[None]:
    """Release locks."""
    for place, here in _group_by_broker(queues).items():
        request = UnlockQueues(group, client_id, tuple(here))
        yield from routing.ask_broker(directory, place, request)


def _group_by_broker(queues: Sequence[MessageQueue]) -> dict[BrokerChoice, list[MessageQueue]]:
    found: dict[BrokerChoice, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        found[BrokerChoice.from_queue(queue)].append(queue)
    return found


def query_assignment(
    directory: Directory, group: str, topic: str, client_id: str, strategy: str = "AVG"
) -> Flow[list[MessageQueue]]:
    """Ask which queues RocketMQ's brokers would assign to a member."""
    request = GetAssignment(group, topic, client_id, strategy)
    answers = yield from routing.ask_brokers(directory, topic, request)
    for answer in answers.values():
        if not isinstance(answer, errors.MqError):
            return answer
    raise next(error for error in answers.values() if isinstance(error, errors.MqError))
