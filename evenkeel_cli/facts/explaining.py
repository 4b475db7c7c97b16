"""
Explains why queues have their owners, from Kubernetes objects and the engine's next plan. Pure.

A row is a range of queues with the same owner, the same last move and the same future.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from contract.kinds.groups import Assigned
from evenkeel import planning, times
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup, Key, Topic
from evenkeel_cli.facts import foresight
from evenkeel_cli.facts.foresight import Foresight
from evenkeel_cli.facts.past import Past, Told
from lb_core import group as people
from lb_core.errors import AllocationError
from lb_core.model import Member, Queue, QueueRange
from lb_core.moves import Move
from lb_core.policy import Policy


@dataclass(frozen=True, slots=True)
class Future:
    """The owner that a queue gets in the next plan, or in a later one."""

    target: str | None
    reason: str
    is_later: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Queues with the same owner, last move and future."""

    queues: QueueRange
    owner: Assigned | None
    told: Told | None
    """
    The last known move of the queues. A later, unknown move may have led to the present owner.
    """
    future: Future | None
    """None if the queues will stay."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that is known about the owners of a group's queues."""

    group: ConsumerGroup
    rows: Sequence[Row]
    past: Past
    foresight: Foresight | None
    trouble: str
    """Why the next plan cannot be computed; empty if it can."""
    people: people.Group
    """The consumers, divided by whether they may own queues."""
    now: datetime


def explain(
    group: ConsumerGroup, topics: Mapping[Key, Topic], past: Past, now: datetime
) -> Explanation:
    """Collect everything that is known about the owners of a group's queues."""
    foreseen, trouble = None, ""
    try:
        foreseen = foresight.foresee(group, topics, now)
    except EvenkeelError as error:
        trouble = str(error)
    queues = [] if planning.explain_no_plan(group) else _list_queues(group, topics)
    rows = list(_make_rows(group, queues, past, _find_futures(foreseen)))
    try:
        members = people.sort_out(_list_members(group, now), _make_policy(group))
    except AllocationError as error:  # a user has edited the status
        raise EvenkeelError(f"{group}: its status cannot be read: {error}") from error
    return Explanation(group, rows, past, foreseen, trouble, members, now)


def select_queue(explanation: Explanation, name: str) -> Explanation:
    """Keep only the row of one queue, whose name is written as `orders@broker-a/3`."""
    if why := planning.explain_no_plan(explanation.group):
        raise EvenkeelError(f"{explanation.group} is {why}")
    source, _, number = name.rpartition("/")
    topic, _, broker = source.partition("@")
    if not (topic and broker and number.isascii() and number.isdigit()):
        raise EvenkeelError(
            f"{name} must be a queue written as TOPIC@BROKER/ID, such as orders@broker-a/3"
        )
    of_source = [
        row for row in explanation.rows if (row.queues.topic, row.queues.broker) == (topic, broker)
    ]
    for row in of_source:
        if row.queues.start <= int(number) < row.queues.stop:
            one = replace(row.queues, start=int(number), stop=int(number) + 1)
            return replace(explanation, rows=[replace(row, queues=one)])
    known = sorted({f"{row.queues.topic}@{row.queues.broker}" for row in explanation.rows})
    if of_source:
        there_are = f"the ids on {broker} are below {max(row.queues.stop for row in of_source)}"
    else:
        there_are = f"it has queues on {', '.join(known) or 'no broker'}"
    raise EvenkeelError(f"{explanation.group} has no queue {name}: {there_are}")


def _list_queues(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> list[QueueRange]:
    """List all queues from the Topics. If that fails, list the queues that have owners."""
    try:
        return planning.list_queues(group, topics)
    except EvenkeelError:
        owned = {each for one in group.status.assignments for each in planning.read_owned(one)}
        return sorted(owned, key=lambda each: (each.topic, each.broker, each.start))


def _make_rows(
    group: ConsumerGroup,
    queues: Sequence[QueueRange],
    past: Past,
    futures: Mapping[Queue, Future],
) -> Iterator[Row]:
    owners = {
        queue: assigned
        for assigned in group.status.assignments
        for run in planning.read_owned(assigned)
        for queue in run
    }

    def find_story(queue: Queue) -> tuple[Assigned | None, Told | None, Future | None]:
        return owners.get(queue), past.find_newest(queue), futures.get(queue)

    for run in queues:
        for (owner, told, future), found in groupby(run, find_story):
            some = list(found)
            yield Row(replace(run, start=some[0].id, stop=some[-1].id + 1), owner, told, future)


def _find_futures(foreseen: Foresight | None) -> dict[Queue, Future]:
    if foreseen is None:
        return {}
    plan = foreseen.plan

    def list_each(moves: Sequence[Move], *, is_later: bool) -> Iterator[tuple[Queue, Future]]:
        for move in moves:
            future = Future(move.target, move.reason, is_later)
            yield from ((queue, future) for run in move.queues for queue in run)

    return dict(list_each(plan.deferred, is_later=True)) | dict(
        list_each(plan.moves, is_later=False)
    )


def _make_policy(group: ConsumerGroup) -> Policy:
    grace = times.parse_duration(group.spec.rebalance.grace) if group.spec.job else 0.0
    return planning.build_policy(group.spec.strategy, grace)


def _list_members(group: ConsumerGroup, now: datetime) -> list[Member]:
    listed = {each.id: each for each in planning.list_static_members(group) or ()}
    return [
        Member(
            each.consumer,
            each.zone or None,
            listed[each.consumer].capacity if each.consumer in listed else 1,
            each.draining,
            times.measure_since(each.empty_since, now)
            if each.empty_since and each.executor
            else None,
        )
        for each in group.status.assignments
    ]
