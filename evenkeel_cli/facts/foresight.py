"""
What the operator would plan next, from what the objects of a cluster or of a file say alone. Pure.

It is the operator's own decision. A pause is left out, so that it shows what waits for its end; a
job is taken to follow the newest assignment, and executors that it lacks to have come.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count, islice

import msgspec

from contract.kinds.groups import Assigned
from contract.names import PAUSED
from evenkeel import planning, times
from evenkeel.control import conditions, findings, groups
from evenkeel.control.seen import Conflict, JobSeen, JobState, Report, Seat, Seen
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic
from lb_core.model import Member
from lb_core.plan import Plan

NO_RATES = (
    "weights: Rate goes by what the operator has measured; here each queue counts as one, so what "
    "it would move is another matter"
)
PAUSED_NOW = "it is paused: what is not forced waits until it goes on"


@dataclass(frozen=True, slots=True)
class Foresight:
    """The plan, and what must be known about it."""

    plan: Plan
    notes: Sequence[str] = ()


def foresee(
    group: ConsumerGroup, topics: Mapping[Key, Topic], now: datetime, executors: int | None = None
) -> Foresight:
    """Plan as the operator would; `executors` instead of as many as the group's job says."""
    notes = [PAUSED_NOW] if findings.is_paused(group) else []
    if planning.goes_by_rate(group.spec.strategy):
        notes.append(NO_RATES)
    group = _with_slots(_with_executors(_going_on(group), executors), now)
    decision = groups.decide(group, _seen(group, topics), now)
    if decision.plan is None:
        ready = conditions.find(decision.status.conditions, "Ready")
        why = ready.message if ready else ""
        raise ManifestError(why or f"{group}: there is nothing to plan")
    return Foresight(decision.plan, notes)


def _going_on(group: ConsumerGroup) -> ConsumerGroup:
    """Leave a pause out."""
    rebalance = msgspec.structs.replace(group.spec.rebalance, paused=False)
    spec = msgspec.structs.replace(group.spec, rebalance=rebalance)
    said = {name: text for name, text in group.head.annotations.items() if name != PAUSED}
    return replace(group, head=replace(group.head, annotations=said), spec=spec)


def _with_executors(group: ConsumerGroup, executors: int | None) -> ConsumerGroup:
    if executors is None:
        return group
    if group.spec.job is None:
        raise ManifestError(f"{group} has no job, so it has no executors")
    job = msgspec.structs.replace(group.spec.job, executors=executors)
    return replace(group, spec=msgspec.structs.replace(group.spec, job=job))


def _with_slots(group: ConsumerGroup, now: datetime) -> ConsumerGroup:
    """Add the slots that a planned group lacks, as the operator does before they are filled."""
    known = {each.consumer for each in group.status.assignments}
    if group.spec.job is None or not known:
        return group
    unused = (name for name in map(group.slot, count()) if name not in known)
    added = [
        Assigned(name, empty_since=times.shown(now))
        for name in islice(unused, max(0, group.spec.job.executors - len(known)))
    ]
    assignments = [*group.status.assignments, *added]
    return replace(group, status=msgspec.structs.replace(group.status, assignments=assignments))


def _seen(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> Seen:
    """Take things to be as the status shows them."""
    claims = group.status.claims
    return Seen(topics, _job(group), _pods(group), conflict=_conflict(group), claims=claims)


def _job(group: ConsumerGroup) -> JobSeen | None:
    if group.spec.job is None:
        return None
    slots = group.status.assignments
    if not slots:
        return JobSeen(JobState.STARTING, record=group.status.job)
    is_anybody_there = any(each.executor and not each.empty_since for each in slots)
    filled = {
        each.consumer: Seat(each.executor or f"of {each.consumer}", each.pod, each.zone)
        for each in slots
        # Where nobody is there, nobody is taken to have gone; who is to come is taken to be there.
        if not (each.empty_since or (is_anybody_there and not each.executor))
        or planning.waits_for_its_first(each)
    }
    report = Report(group.status.epoch, filled, is_pinned=True)
    return JobSeen(JobState.RUNNING, report=report, record=group.status.job)


def _pods(group: ConsumerGroup) -> list[Member] | None:
    if group.spec.job is not None or planning.static_members(group) is not None:
        return None
    if not group.status.epoch:
        raise ManifestError(f"{group}: its consumers are pods, and its status lists none yet")
    return [Member(each.consumer, each.zone or None) for each in group.status.assignments]


def _conflict(group: ConsumerGroup) -> Conflict | None:
    found = conditions.find(group.status.conditions, "Conflicted")
    if found is None or not found.holds:
        return None
    return Conflict(found.reason, found.message)
