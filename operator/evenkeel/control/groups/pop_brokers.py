"""
Prepares brokers for a group that is balanced by message.

Each broker keeps its own list of groups, and loses it with its disk, so the group is looked for
again with each census. A pop of a queue that cannot exist takes no message, and shows whether the
broker can pop at all: without its timer wheel, it cannot.
"""

from collections.abc import Callable, Sequence

from mq_client import errors, flows
from mq_client.commands.popping import Pop
from mq_client.directory import Directory
from mq_client.flows import Ask, Flow
from mq_client.operations import groups, routing
from mq_client.values import GroupConfig, RequestMode

NO_QUEUE = 1 << 30
"""The number of a queue that no topic has."""


def prepare(
    directory: Directory, group: str, topic: str, refuse: Callable[[], None]
) -> Flow[list[str]]:
    """
    Create the group on all brokers of a topic that do not know it. Return the brokers without pops.

    RocketMQ's own consumers of the group are told to pop too. `refuse` raises an error if writes
    are no longer allowed.
    """
    route = yield from routing.find_route(directory, topic, max_age=0)
    brokers = [each.broker for each in route.brokers if each.is_readable]
    known = yield from groups.list_groups(directory, brokers)
    missing = [broker for broker, found in known.items() if group not in found]
    if missing:
        refuse()
        yield from groups.put_group(directory, GroupConfig(group), missing)
    unfit = yield from _find_unfit(directory, group, topic, brokers)
    refuse()
    yield from groups.set_request_mode(directory, group, topic, RequestMode.POP)
    return unfit


def _find_unfit(
    directory: Directory, group: str, topic: str, brokers: Sequence[str]
) -> Flow[list[str]]:
    """Find the brokers that refuse every pop."""
    unfit = []
    probe = Pop(group, topic, 1, invisible_ms=1_000, poll_ms=0, queue_id=NO_QUEUE)
    asks = []
    for broker in brokers:
        address = yield from routing.find_master(directory, topic, broker, max_age=None)
        asks.append(Ask(address, probe, directory.times.answer))
    answers = yield flows.AskAll(tuple(asks))
    for broker, answer in zip(brokers, answers, strict=True):
        if isinstance(answer, errors.PopsOffError):
            unfit.append(broker)
    return unfit
