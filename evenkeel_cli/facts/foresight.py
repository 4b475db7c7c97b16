"""
Computes the operator's next plan from the objects of a cluster or a file. Pure.

It calls the operator's own code. It ignores a pause, to show which moves wait for the end of the
pause. It assumes that the job follows the newest assignment and has all its executors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count, islice

import msgspec

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.groups import Assigned
from contract.names import PAUSED
from evenkeel import planning, times
from evenkeel.control import conditions
from evenkeel.control.conflicts import Conflict
from evenkeel.control.groups import findings, group_status
from evenkeel.control.groups.member_slots import LiveMember
from evenkeel.control.groups.surroundings import GroupSurroundings
from evenkeel.control.jobs.states import JobSeen, JobState, Report, SlotExecutor
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic
from lb_core.model import Member
from lb_core.plan import Plan

NO_RATES = (
    "weights: Rate uses rates that only the operator measures; here each queue counts as one, so "
    "the operator may move other queues"
)
PAUSED_NOW = "the group is paused: moves that are not forced wait until it is resumed"


@dataclass(frozen=True, slots=True)
class Foresight:
    """The next plan, and notes for the user."""

    plan: Plan
    notes: Sequence[str] = ()


def foresee(
    group: ConsumerGroup, topics: Mapping[Key, Topic], now: datetime, executors: int | None = None
) -> Foresight:
    """Plan as the operator would. `executors` overrides the number in the job's spec."""
    notes = [PAUSED_NOW] if findings.is_paused(group) else []
    if planning.uses_rates(group.spec.strategy):
        notes.append(NO_RATES)
    group = _add_slots(_set_executors(_remove_pause(group), executors), now)
    decision = group_status.decide(group, _make_seen(group, topics), now)
    if decision.plan is None:
        ready = conditions.find(decision.status.conditions, ConditionType.READY)
        why = ready.message if ready else ""
        raise ManifestError(why or f"{group}: there is nothing to plan")
    return Foresight(decision.plan, notes)


def _remove_pause(group: ConsumerGroup) -> ConsumerGroup:
    """Remove a pause."""
    rebalance = msgspec.structs.replace(group.spec.rebalance, paused=False)
    spec = msgspec.structs.replace(group.spec, rebalance=rebalance)
    said = {name: text for name, text in group.head.annotations.items() if name != PAUSED}
    return replace(group, head=replace(group.head, annotations=said), spec=spec)


def _set_executors(group: ConsumerGroup, executors: int | None) -> ConsumerGroup:
    if executors is None:
        return group
    if group.spec.job is None:
        raise ManifestError(f"{group} has no job, so it has no executors")
    job = msgspec.structs.replace(group.spec.job, executors=executors)
    return replace(group, spec=msgspec.structs.replace(group.spec, job=job))


def _add_slots(group: ConsumerGroup, now: datetime) -> ConsumerGroup:
    """Add missing slots, as the operator does before it starts executors."""
    known = {each.consumer for each in group.status.assignments}
    if group.spec.job is None or not known:
        return group
    unused = (name for name in map(group.name_slot, count()) if name not in known)
    added = [
        Assigned(name, empty_since=times.format_time(now))
        for name in islice(unused, max(0, group.spec.job.executors - len(known)))
    ]
    assignments = [*group.status.assignments, *added]
    return replace(group, status=msgspec.structs.replace(group.status, assignments=assignments))


def _make_seen(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> GroupSurroundings:
    """Build the surroundings of a group from its status and its topics."""
    claims = group.status.claims
    return GroupSurroundings(
        topics,
        _make_job(group),
        _list_pods(group),
        _list_live(group),
        conflict=_find_conflict(group),
        claims=claims,
    )


def _make_job(group: ConsumerGroup) -> JobSeen | None:
    if group.spec.job is None:
        return None
    slots = group.status.assignments
    if not slots:
        return JobSeen(JobState.STARTING, record=group.status.job)
    is_anybody_there = any(each.executor and not each.empty_since for each in slots)
    filled = {
        each.consumer: SlotExecutor(each.executor or f"of {each.consumer}", each.pod, each.zone)
        for each in slots
        # If no slot has an executor, slots that never had one count as filled.
        if not (each.empty_since or (is_anybody_there and not each.executor))
        or planning.waits_for_its_first(each)
    }
    report = Report(group.status.epoch, filled, is_pinned=True)
    return JobSeen(JobState.RUNNING, report=report, record=group.status.job)


def _list_pods(group: ConsumerGroup) -> list[Member] | None:
    if group.spec.job is not None or planning.list_static_members(group) is not None:
        return None
    if not group.status.epoch:
        who = "members" if planning.has_members(group) else "pods"
        raise ManifestError(
            f"{group}: its consumers are {who}, which a file does not name; "
            "use evenkeel plan --cluster, which reads them from the status"
        )
    return [Member(each.consumer, each.zone or None) for each in group.status.assignments]


def _list_live(group: ConsumerGroup) -> list[LiveMember] | None:
    """List the members that fill slots."""
    if not planning.has_members(group):
        return None
    found = [each for each in group.status.assignments if each.pod and not each.empty_since]
    return [LiveMember(each.pod, datetime.min.replace(tzinfo=UTC), each.zone) for each in found]


def _find_conflict(group: ConsumerGroup) -> Conflict | None:
    found = conditions.find(group.status.conditions, ConditionType.CONFLICTED)
    if found is None or not found.holds:
        return None
    reasons = {each.value: each for each in ConditionReason}
    # A later operator may have reasons that this version does not know.
    reason = reasons.get(found.reason, ConditionReason.OTHER_DRIVER)
    return Conflict(reason, found.message)
