"""
The conversation with all brokers that takes a topic one step further.

A broker that fails at any point is left alone with what it has, and the others go on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from evenkeel.control.provisioning import closing_queues, steps
from evenkeel.control.provisioning.closing_queues import Committed, Drain, Quiet
from evenkeel.control.provisioning.steps import QueueCounts, StepOutcome
from evenkeel.control.provisioning.topic_settings import GetSettings, PutSettings
from mq_client import errors
from mq_client.commands.base import Request
from mq_client.commands.membership import GetReaders
from mq_client.commands.offsets import GetOffset, GetTopicOffsets
from mq_client.directory import Directory
from mq_client.flows import Ask, AskAll, Flow
from mq_client.operations import routing
from mq_client.values import MASTER_ID, MessageQueue

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class TopicWish:
    """What is wanted of which topic."""

    topic: str
    goal: QueueCounts
    readers: Callable[[], Sequence[str]]
    """Names groups that brokers may not know yet; called only when queues close."""
    quiet: Quiet
    refuse: Callable[[], None] = lambda: None
    """Raises if nothing may be written any more."""


def step(directory: Directory, task: TopicWish) -> Flow[StepOutcome]:
    """Look at the topic on all brokers, decide, and write what is to be written now."""
    masters = yield from _masters(directory)
    there = yield from masters.ask({name: GetSettings(task.topic) for name in masters.addresses})
    route = {name: found.counts if found else None for name, found in there.items()}
    having = [name for name, counts in route.items() if counts is not None]
    closing = steps.to_drain(task.goal, route)
    readers = (yield from _readers(masters, task, having)) if closing else set()
    drain = yield from _drain(masters, task, closing, sorted(readers))
    decided = steps.next_step(task.goal, route, drain.drained)
    puts = {
        name: PutSettings(task.topic, counts, there[name]) for name, counts in decided.puts.items()
    }
    if puts:
        task.refuse()  # brokers would take it from anybody
    yield from masters.ask(puts)
    return StepOutcome(decided, tuple(route), drain.waits, masters.failed)


def _masters(directory: Directory) -> Flow["_Masters"]:
    """Find all brokers; one of which the name server knows only slaves has failed."""
    known = (yield from routing.list_brokers(directory)).brokers
    if not known:
        raise errors.NoBrokerError("the name server knows no broker now")
    found = _Masters(directory.times.answer, directory.now())
    for name, addresses in sorted(known.items()):
        if MASTER_ID in addresses:
            found.addresses[name] = addresses[MASTER_ID]
        else:
            found.failed[name] = errors.NoBrokerError("the name server knows no master of it now")
    return found


def _readers(masters: "_Masters", task: TopicWish, having: Sequence[str]) -> Flow[set[str]]:
    """Ask all brokers that have the topic who reads it; most groups are nobody's objects."""
    told = yield from masters.ask({name: GetReaders(task.topic) for name in having})
    return {group for found in told.values() for group in found} | set(task.readers())


def _drain(
    masters: "_Masters", task: TopicWish, closing: Mapping[str, range], readers: Sequence[str]
) -> Flow[Drain]:
    """Ask what queues that close still hold, and who has not read it."""
    told = yield from masters.ask({name: GetTopicOffsets(task.topic) for name in closing})
    offsets = {
        queue: found
        for name, table in told.items()
        for queue, found in table.items()
        if queue.broker == name and queue.id in closing[name]
    }
    quiet = task.quiet.note({queue: found.max for queue, found in offsets.items()}, masters.now)
    committed = yield from masters.committed(readers, closing_queues.holding(offsets))
    sure = {queue: found for queue, found in offsets.items() if queue.broker not in masters.failed}
    return closing_queues.drain(sure, committed, quiet)


class _Masters:
    """The masters of a cluster. Who has failed is asked nothing more."""

    def __init__(self, answer_seconds: float, now: float) -> None:
        self.now = now
        self.addresses: dict[str, str] = {}
        self.failed: dict[str, errors.MqError] = {}
        self._answer_seconds = answer_seconds

    def ask(self, requests: Mapping[str, Request[Value]]) -> Flow[dict[str, Value]]:
        """Ask brokers side by side; what those answered that did not fail."""
        asked = [name for name in requests if name not in self.failed]
        answers = yield from self._all([(name, requests[name]) for name in asked])
        self.failed |= {
            name: answer
            for name, answer in zip(asked, answers, strict=True)
            if isinstance(answer, errors.MqError)
        }
        return {
            name: answer
            for name, answer in zip(asked, answers, strict=True)
            if not isinstance(answer, errors.MqError)
        }

    def committed(self, groups: Sequence[str], queues: Sequence[MessageQueue]) -> Flow[Committed]:
        """Ask for what groups read next; queues of brokers that fail are left out."""
        pairs = [(group, queue) for group in groups for queue in queues]
        answers = yield from self._all(
            [(queue.broker, GetOffset(group, queue.topic, queue.id)) for group, queue in pairs]
        )
        found: dict[tuple[str, MessageQueue], int | None] = {}
        for (group, queue), answer in zip(pairs, answers, strict=True):
            if isinstance(answer, errors.OffsetUnknownError | errors.GroupUnknownError):
                found[group, queue] = None
            elif isinstance(answer, errors.MqError):
                self.failed[queue.broker] = answer
            else:
                found[group, queue] = answer
        return {pair: offset for pair, offset in found.items() if pair[1].broker not in self.failed}

    def _all(
        self, requests: Sequence[tuple[str, Request[Value]]]
    ) -> Flow[list[Value | errors.MqError]]:
        asks = [
            Ask(self.addresses[name], request, self._answer_seconds) for name, request in requests
        ]
        answers: list[Value | errors.MqError] = yield AskAll(tuple(asks))
        return answers
