"""
Sends the requests to all brokers for one provisioning step of a topic.

If a broker fails at any point, its queues do not change, and the step continues on other brokers.
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
    """A topic to provision."""

    topic: str
    goal: QueueCounts
    readers: Callable[[], Sequence[str]]
    """Returns groups that brokers may not know yet. It is called only if queues close."""
    quiet: Quiet
    refuse: Callable[[], None] = lambda: None
    """Raises an error if writes are no longer allowed."""


def take_step(directory: Directory, task: TopicWish) -> Flow[StepOutcome]:
    """Read the topic's settings on all brokers, plan a step, and write it."""
    masters = yield from _find_masters(directory)
    there = yield from masters.ask({name: GetSettings(task.topic) for name in masters.names})
    route = {name: found.counts if found else None for name, found in there.items()}
    having = [name for name, counts in route.items() if counts is not None]
    closing = steps.find_closing(task.goal, route)
    readers = (yield from _ask_readers(masters, task, having)) if closing else set()
    drain = yield from _ask_drain(masters, task, closing, sorted(readers))
    decided = steps.plan_step(task.goal, route, drain.drained)
    puts = {
        name: PutSettings(task.topic, counts, there[name]) for name, counts in decided.puts.items()
    }
    if puts:
        task.refuse()  # brokers would accept a write from any replica
    yield from masters.ask(puts)
    return StepOutcome(decided, tuple(route), drain.waits, masters.failed)


def _find_masters(directory: Directory) -> Flow["_Masters"]:
    """Find the masters of all brokers. A broker without a known master counts as failed."""
    known = (yield from routing.list_brokers(directory)).brokers
    if not known:
        raise errors.NoBrokerError("the name server knows no broker now")
    found = {name: _find_master(addresses) for name, addresses in sorted(known.items())}
    return _Masters(found, directory.times.answer, directory.now())


def _find_master(addresses: Mapping[int, str]) -> "_Master":
    if MASTER_ID in addresses:
        return _Master(addresses[MASTER_ID])
    return _Master("", errors.NoBrokerError("the name server knows no master of this broker now"))


def _ask_readers(masters: "_Masters", task: TopicWish, having: Sequence[str]) -> Flow[set[str]]:
    """Ask all brokers which groups read the topic. Many groups have no ConsumerGroup object."""
    told = yield from masters.ask({name: GetReaders(task.topic) for name in having})
    return {group for found in told.values() for group in found} | set(task.readers())


def _ask_drain(
    masters: "_Masters", task: TopicWish, closing: Mapping[str, range], readers: Sequence[str]
) -> Flow[Drain]:
    """Ask for the offsets of closing queues, and for the committed offsets of each group."""
    told = yield from masters.ask({name: GetTopicOffsets(task.topic) for name in closing})
    offsets = {
        queue: found
        for name, table in told.items()
        for queue, found in table.items()
        if queue.broker == name and queue.id in closing[name]
    }
    quiet = task.quiet.note({queue: found.max for queue, found in offsets.items()}, masters.now)
    committed = yield from masters.ask_committed(readers, closing_queues.list_filled(offsets))
    sure = {queue: found for queue, found in offsets.items() if queue.broker not in masters.failed}
    return closing_queues.measure_drain(sure, committed, quiet)


@dataclass(slots=True)
class _Master:
    """The master of one broker."""

    address: str
    error: errors.MqError | None = None
    """Why this master gets no more requests."""


class _Masters:
    """The masters of a cluster. A master that has failed gets no more requests."""

    def __init__(self, masters: Mapping[str, _Master], answer_seconds: float, now: float) -> None:
        self.now = now
        self._masters = masters
        self._answer_seconds = answer_seconds

    @property
    def names(self) -> list[str]:
        """The brokers that have not failed."""
        return [name for name, each in self._masters.items() if each.error is None]

    @property
    def failed(self) -> dict[str, errors.MqError]:
        """The brokers that have failed, with their errors."""
        found = ((name, each.error) for name, each in self._masters.items())
        return {name: error for name, error in found if error is not None}

    def ask(self, requests: Mapping[str, Request[Value]]) -> Flow[dict[str, Value]]:
        """Send requests to brokers in parallel. Return the answers of brokers that did not fail."""
        asked = [name for name in requests if self._masters[name].error is None]
        answers = yield from self._send([(name, requests[name]) for name in asked])
        found = {}
        for name, answer in zip(asked, answers, strict=True):
            if isinstance(answer, errors.MqError):
                self._masters[name].error = answer
            else:
                found[name] = answer
        return found

    def ask_committed(
        self, groups: Sequence[str], queues: Sequence[MessageQueue]
    ) -> Flow[Committed]:
        """Ask for the committed offsets of groups. Queues of failed brokers are left out."""
        pairs = [(group, queue) for group in groups for queue in queues]
        answers = yield from self._send(
            [(queue.broker, GetOffset(group, queue.topic, queue.id)) for group, queue in pairs]
        )
        found: dict[tuple[str, MessageQueue], int | None] = {}
        for (group, queue), answer in zip(pairs, answers, strict=True):
            if isinstance(answer, errors.OffsetUnknownError | errors.GroupUnknownError):
                found[group, queue] = None
            elif isinstance(answer, errors.MqError):
                self._masters[queue.broker].error = answer
            else:
                found[group, queue] = answer
        return {
            pair: offset
            for pair, offset in found.items()
            if self._masters[pair[1].broker].error is None
        }

    def _send(
        self, requests: Sequence[tuple[str, Request[Value]]]
    ) -> Flow[list[Value | errors.MqError]]:
        asks = [
            Ask(self._masters[name].address, request, self._answer_seconds)
            for name, request in requests
        ]
        answers: list[Value | errors.MqError] = yield AskAll(tuple(asks))
        return answers
