"""
Prepares brokers for a group that is balanced by message.

Each broker keeps its own list of groups, and loses it with its disk, so the group is looked for
again with each census. A pop of a queue that cannot exist takes no message, and shows whether the
broker can pop at all: without its timer wheel, it cannot. A broker that fails delays no other one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from contract.kinds.groups import PopStore
from mq_client import errors, flows
from mq_client.commands.cluster import GetBrokerSettings
from mq_client.commands.groups import GetGroups, PutGroup, SetRequestMode
from mq_client.commands.popping import Pop
from mq_client.directory import Directory
from mq_client.flows import Flow
from mq_client.operations import balance, routing
from mq_client.values import GroupConfig, RequestMode

Value = TypeVar("Value")
NO_QUEUE = 1 << 30
"""The number of a queue that no topic has."""


@dataclass(frozen=True, slots=True)
class PreparedBrokers:
    """The brokers of a topic, after the preparation."""

    wrong: list[str]
    """Why some of them are not ready."""
    stores: dict[str, PopStore]
    """Where those that have answered keep popped messages."""


def prepare(
    directory: Directory, group: str, topic: str, refuse: Callable[[], None]
) -> Flow[PreparedBrokers]:
    """
    Create the group on all brokers of a topic that do not know it.

    RocketMQ's own consumers of the group are told to pop too, if they do not balance by themselves.
    `refuse` raises an error if writes are no longer allowed.
    """
    route = yield from routing.find_route(directory, topic, max_age=0)
    addresses: dict[str, str] = {}
    wrong: list[str] = []
    for broker in (each.broker for each in route.brokers if each.is_readable):
        try:
            addresses[broker] = yield from routing.find_master(directory, topic, broker, None)
        except errors.MqError as error:
            wrong.append(str(error))
    seconds = directory.times.answer
    known = _take(wrong, (yield from flows.ask_all(addresses, GetGroups(), seconds)))
    missing = {broker: addresses[broker] for broker, found in known.items() if group not in found}
    wrong += [
        f"{broker}: it gives the group {group!r} no messages (consumeEnable=false)"
        for broker, found in known.items()
        if group in found and not found[group].is_enabled
    ]
    refuse()
    put = PutGroup(GroupConfig(group))
    created = _take(wrong, (yield from flows.ask_all(missing, put, seconds)))
    ready = {name: addresses[name] for name in known if name in created or name not in missing}
    refuse()
    mode = SetRequestMode(group, topic, RequestMode.POP)
    _take(wrong, (yield from flows.ask_all(ready, mode, seconds)))
    probe = Pop(group, topic, 1, invisible_ms=1_000, poll_ms=0, queue_id=NO_QUEUE)
    answers = yield from flows.ask_all(ready, probe, seconds)
    unfit = {name: each for name, each in answers.items() if isinstance(each, errors.PopsOffError)}
    _take(wrong, unfit)
    settings = _take(wrong, (yield from flows.ask_all(ready, GetBrokerSettings(), seconds)))
    return PreparedBrokers(wrong, {name: _find_store(each) for name, each in settings.items()})


def _find_store(settings: Mapping[str, str]) -> PopStore:
    return PopStore.ROCKSDB if balance.has_rocksdb(settings) else PopStore.FILES


def _take(wrong: list[str], answers: Mapping[str, Value | errors.MqError]) -> dict[str, Value]:
    """Return the answers by broker, and note the errors in `wrong`."""
    found: dict[str, Value] = {}
    for name, each in answers.items():
        if isinstance(each, errors.MqError):
            wrong.append(f"{name}: {each}")
        else:
            found[name] = each
    return found
