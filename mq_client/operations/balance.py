"""
Make a group's positions ready for another kind of balance, while nobody reads.

A consumer that pulls begins at the committed offset. So does one that pops a queue in its order:
its acknowledgements move this offset. One that pops without an order begins elsewhere:

| store of what is popped | a pop begins at | a pop changes |
|---|---|---|
| files | the committed offset | the committed offset: it jumps over what was popped |
| RocksDB | the pull offset: where a consumer has pulled or popped last | the pull offset |

So with RocksDB, a group that begins to pop would lose messages that were pulled but not committed,
and a group that begins to pull would get those of its last pops again. With files, the pull offset
may be too high, so the store decides which of the two offsets counts.

A broker with RocksDB has another trap. A pull that waits there for a message stays when its
consumer is gone, and moves the pull offset over the next message, which nobody gets. So pops must
not begin before such pulls have ended.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mq_client import errors, flows
from mq_client.commands.base import Request
from mq_client.commands.cluster import GetBrokerSettings
from mq_client.commands.groups import SetRequestMode
from mq_client.commands.offsets import (
    CommitOffset,
    GetLag,
    GetOffset,
    GetTopicOffsets,
    ResetOffset,
)
from mq_client.directory import Directory
from mq_client.flows import Ask, AskAll, Flow
from mq_client.operations import routing
from mq_client.values import Lag, MessageQueue, Offsets, RequestMode

WAITING_PULL_SECONDS = 26.0
"""
How long a pull may wait at a broker after its consumer is gone.

RocketMQ's consumers wait for 20 s by default, this client for 15 s, and a broker looks every 5 s
which pulls are over.
"""
AT_ONCE = 256
"""Maximum number of requests that wait for an answer at the same time."""
ROCKSDB = "popConsumerKVServiceEnable"
"""The setting of a broker that keeps popped messages in RocksDB."""
UNKNOWN = (errors.OffsetUnknownError, errors.GroupUnknownError)
Refuse = Callable[[], None]
"""Raises an error if nothing may be written any more. It is called before each write."""
Masters = Mapping[tuple[str, str], str]
"""The masters of all queues, by topic and broker."""


def begin_pops(
    directory: Directory,
    group: str,
    queues: Sequence[MessageQueue],
    quiet_seconds: float,
    refuse: Refuse,
) -> Flow[bool]:
    """
    Let pops begin at the committed offsets. A queue that has none keeps its position.

    Nobody may have read for `quiet_seconds`. Return False, and write nothing, if that is not long
    enough for these brokers. All brokers of the queues must answer. The call can be repeated.
    """
    masters = yield from _find_masters(directory, queues)
    committed = yield from _find_committed(directory, group, queues, masters)
    if quiet_seconds < WAITING_PULL_SECONDS:
        places = {(queue.topic, queue.broker): masters[queue.topic, queue.broker]
                  for queue in committed}  # fmt: skip
        if (yield from _find_rocksdb(directory, places)):
            return False
    requests: list[tuple[str, Request[Any]]] = []
    for (topic, _), address in masters.items():
        seconds = directory.times.answer
        ranges: dict[MessageQueue, Offsets] = yield from flows.ask(
            address, GetTopicOffsets(topic), seconds
        )
        requests += [
            # A broker refuses offsets of messages that are deleted, or that never existed.
            (address, ResetOffset(group, topic, queue.id, _clamp(committed[queue], stored)))
            for queue, stored in ranges.items()
            if queue in committed
        ]
    yield from _write_all(directory, requests, refuse)
    return True


def end_pops(
    directory: Directory, group: str, queues: Sequence[MessageQueue], refuse: Refuse
) -> Flow[None]:
    """
    Let pulls begin where pops have ended, and tell RocketMQ's own consumers to pull.

    A message that was popped but not acknowledged comes again as one of the group's retries only.
    All brokers of the queues must answer. The call can be repeated.
    """
    known = yield from let_pull(directory, group, queues, refuse)
    requests: list[tuple[str, Request[Any]]] = []
    for (topic, _), address in (yield from _find_rocksdb(directory, known)).items():
        lags: list[Lag] = yield from flows.ask(
            address, GetLag(group, topic), directory.times.answer
        )
        requests += [
            (address, CommitOffset(group, topic, each.queue.id, each.pull_offset))
            for each in lags
            if each.pull_offset > each.consumer_offset
        ]
    yield from _write_all(directory, requests, refuse)


def let_pull(
    directory: Directory, group: str, queues: Sequence[MessageQueue], refuse: Refuse
) -> Flow[Masters]:
    """
    Tell RocketMQ's own consumers to pull. Return the brokers of these queues that know the group.

    All brokers of the queues must answer. The call can be repeated.
    """
    masters = yield from _find_masters(directory, queues)
    known: dict[tuple[str, str], str] = {}
    for (topic, broker), address in masters.items():
        refuse()
        mode = SetRequestMode(group, topic, RequestMode.PULL)
        try:
            yield from flows.ask(address, mode, directory.times.answer)
        except errors.GroupUnknownError:
            continue  # nobody has popped there
        known[topic, broker] = address
    return known


def _find_masters(directory: Directory, queues: Sequence[MessageQueue]) -> Flow[Masters]:
    found: dict[tuple[str, str], str] = {}
    known: set[str] = set()
    for topic, broker in sorted({(each.topic, each.broker) for each in queues}):
        max_age = None if topic in known else 0  # one question about the route of each topic
        known.add(topic)
        found[topic, broker] = yield from routing.find_master(directory, topic, broker, max_age)
    return found


def _find_committed(
    directory: Directory, group: str, queues: Sequence[MessageQueue], masters: Masters
) -> Flow[dict[MessageQueue, int]]:
    """Find the committed offsets of the queues that have one."""
    requests = [
        (masters[each.topic, each.broker], GetOffset(group, each.topic, each.id)) for each in queues
    ]
    answers = yield from _ask_in_turns(directory, requests)
    found: dict[MessageQueue, int] = {}
    for queue, answer in zip(queues, answers, strict=True):
        if isinstance(answer, UNKNOWN):
            continue
        if isinstance(answer, errors.MqError):
            raise answer
        found[queue] = answer
    return found


def _find_rocksdb(directory: Directory, masters: Masters) -> Flow[Masters]:
    """Find out which of these brokers keep popped messages in RocksDB."""
    found: dict[tuple[str, str], str] = {}
    for place, address in masters.items():
        settings = yield from flows.ask(address, GetBrokerSettings(), directory.times.answer)
        if has_rocksdb(settings):
            found[place] = address
    return found


def has_rocksdb(settings: Mapping[str, str]) -> bool:
    """Whether a broker with these settings keeps popped messages in RocksDB."""
    return settings.get(ROCKSDB) == "true"


def _clamp(offset: int, stored: Offsets) -> int:
    return min(max(offset, stored.min), stored.max)


def _write_all(
    directory: Directory, requests: Sequence[tuple[str, Request[Any]]], refuse: Refuse
) -> Flow[None]:
    for answer in (yield from _ask_in_turns(directory, requests, refuse)):
        if isinstance(answer, errors.MqError):
            raise answer


def _ask_in_turns(
    directory: Directory,
    requests: Iterable[tuple[str, Request[Any]]],
    refuse: Refuse = lambda: None,
) -> Flow[list[Any]]:
    """Send many requests, some at a time. Return the answers and errors."""
    left, answers = [Ask(*each, directory.times.answer) for each in requests], []
    while left:
        now, left = left[:AT_ONCE], left[AT_ONCE:]
        refuse()
        answers += yield AskAll(tuple(now))
    return answers
