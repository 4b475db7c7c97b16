"""The settings of groups. Each broker has its own, so these operations ask all of them."""

from collections.abc import Sequence

from mq_client import errors, flows
from mq_client.commands.groups import GetGroups, PutGroup, SetRequestMode
from mq_client.directory import Directory
from mq_client.flows import Flow
from mq_client.operations import offsets, routing
from mq_client.values import DLQ_PREFIX, GroupConfig, RequestMode


def put_group(
    directory: Directory, config: GroupConfig, on: Sequence[str] | None = None
) -> Flow[None]:
    """
    Create a group, or replace its settings, on these brokers or on all brokers.

    Settings that `GroupConfig` does not have get RocketMQ's defaults. If a broker refuses, others
    may have changed the group. The call can be repeated.
    """
    addresses = yield from routing.find_masters(directory, on)
    answers = yield from flows.ask_all(addresses, PutGroup(config), directory.times.answer)
    flows.require_all(answers)


def list_groups(
    directory: Directory, on: Sequence[str] | None = None
) -> Flow[dict[str, dict[str, GroupConfig]]]:
    """List all groups with their settings, by broker and group."""
    addresses = yield from routing.find_masters(directory, on)
    answers = yield from flows.ask_all(addresses, GetGroups(), directory.times.answer)
    return dict(zip(addresses, flows.require_all(answers), strict=True))


def set_request_mode(directory: Directory, group: str, topic: str, mode: RequestMode) -> Flow[None]:
    """
    Advise RocketMQ's own consumers of a group, on all brokers of a topic, to pull or to pop.

    The group must exist. Brokers serve pulls and pops whatever the mode is.
    """
    request = SetRequestMode(group, topic, mode)
    flows.require_all((yield from routing.ask_masters(directory, topic, request)))


def count_dead_letters(directory: Directory, group: str) -> Flow[int]:
    """Count the messages in `%DLQ%<group>`. Brokers delete old ones, as in any topic."""
    try:
        found = yield from offsets.list_offsets(directory, DLQ_PREFIX + group)
    except errors.TopicUnknownError:  # brokers create the topic with the first dead letter
        return 0
    return sum(each.max - each.min for each in found.values())
