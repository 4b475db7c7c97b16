"""
What follows from what is seen around a group: its next status, and what people should hear. Pure.

Called again with the status that it made, it makes the same one, and then nothing is written. What
cannot be seen or planned leaves the assignment as it is, and says so in the conditions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from evenkeel import planning, times
from evenkeel.api.groups import (
    Assigned,
    GroupStatus,
    LastRebalance,
    MessageModel,
    OwnedQueues,
)
from evenkeel.api.parts import Condition, ConditionStatus
from evenkeel.control import conditions, findings, lagging
from evenkeel.control.conditions import Finding
from evenkeel.control.seen import Conflict, JobSeen, JobState, Seat, Seen
from evenkeel.control.slots import Place, places
from evenkeel.errors import ManifestError
from evenkeel.objects import Group
from lb_core.assignment import format_ids
from lb_core.model import Member, QueueRange
from lb_core.moves import Move
from lb_core.plan import Plan
from lb_core.policy import STICKY, Policy

MOST_TEXT = 4000
PASSING = (JobState.STARTING.value, planning.ROUTE_PENDING)
"""Reasons that every group has at its start."""


@dataclass(frozen=True, slots=True)
class Happened:
    """What people should hear of: an Event in Kubernetes."""

    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows."""

    status: GroupStatus
    happened: Sequence[Happened] = ()
    look_again_seconds: float | None = None
    """When the same sight brings something else, as a grace ends."""
    plan: Plan | None = None
    """None where there could be none."""


def decide(group: Group, seen: Seen, now: datetime) -> Decision:
    """Decide what a group's status shall be."""
    if seen.job is not None:
        group = replace(group, status=replace_status(group.status, job=seen.job.record))
    try:
        return _planned(group, seen, now)
    except ManifestError as problem:
        reason = problem.reason if isinstance(problem, planning.MissingError) else "InvalidSpec"
        found = findings.stuck(group, seen, reason, str(problem))
        return _decided(group, group.status, found, now, lag=seen.lag)


def is_wanted(group: Group, conflict: Conflict | None) -> bool:
    """Whether the group's job shall run now."""
    job = group.spec.job
    is_asked = bool(job and job.executors and not group.spec.suspend and not group.head.is_going)
    return is_asked and not (conflict is not None and conflict.stops)


def _planned(group: Group, seen: Seen, now: datetime) -> Decision:
    queues = planning.queues_of(group, seen.topics)
    taken = _Taken.of(group, seen, now)
    if group.spec.message_model is MessageModel.BROADCASTING:
        return _broadcast(group, seen, queues, taken.members, now)
    plan = _choose(group, seen, queues, taken)
    kept = group.status
    assignments = taken.assignments(plan)
    adopted = _adopted(kept, seen.job)
    # A job whose checkpoint is older than this object knows a higher epoch, and follows none below.
    has_changed = _shares(assignments) != _shares(kept.assignments) or adopted > kept.epoch
    moved = plan.moved if has_changed else 0
    status = replace_status(
        kept,
        epoch=max(kept.epoch, adopted) + has_changed,
        queues=sum(map(len, queues)),
        consumers=len(taken.members),
        executors=len(taken.places),
        selector=f"evenkeel.dev/group={group.head.key.name},spark-role=executor"
        if group.spec.job
        else "",
        moved=kept.moved + moved,
        imbalance=f"{plan.imbalance:.2f}",
        best_imbalance=f"{plan.best_imbalance:.2f}",
        assignments=assignments,
        adopted_epoch=adopted,
    )
    happened = []
    if moved:
        trigger, reason = _trigger(group, status, queues), _explained(plan)
        status = replace_status(
            status,
            last_rebalance=LastRebalance(times.shown(now), trigger, moved, reason[:MOST_TEXT]),
        )
        happened.append(Happened("Rebalanced", f"epoch {status.epoch}, {trigger}: {reason}"[:1000]))
    found = findings.all_about(group, seen, plan)
    decision = _decided(group, status, found, now, happened, seen.lag)
    return replace(decision, look_again_seconds=plan.look_again_seconds, plan=plan)


def _broadcast(
    group: Group,
    seen: Seen,
    queues: Sequence[QueueRange],
    members: Sequence[Member],
    now: datetime,
) -> Decision:
    """Give every queue to everybody: there is nothing to plan, and nothing moves."""
    kept = group.status
    everything = [OwnedQueues(each.topic, each.broker, format_ids([each])) for each in queues]
    assignments = [
        Assigned(each.id, zone=each.zone or "", queues=everything)
        for each in sorted(members, key=lambda each: each.id)
    ]
    has_changed = _shares(assignments) != _shares(kept.assignments)
    status = replace_status(
        kept,
        epoch=kept.epoch + has_changed,
        queues=sum(map(len, queues)),
        consumers=len(members),
        imbalance="1.00",
        best_imbalance="1.00",
        assignments=assignments,
    )
    found = findings.about_broadcast(group, seen, has_readers=bool(members))
    return _decided(group, status, found, now, lag=seen.lag)


def replace_status(status: GroupStatus, **changes: object) -> GroupStatus:
    """Make a status that differs in this."""
    return msgspec.structs.replace(status, **changes)


@dataclass(frozen=True, slots=True)
class _Taken:
    """Who takes part, and for a job the slots behind the names."""

    members: Sequence[Member]
    places: dict[str, Place]

    @classmethod
    def of(cls, group: Group, seen: Seen, now: datetime) -> "_Taken":
        job = group.spec.job
        if job is not None:
            report = seen.job.report if seen.job else None
            found = places(group, job.executors, report, now)
            return cls(found.members, dict(found.by_name))
        if seen.conflict is not None:  # who follows the assignment would read what others read
            return cls((), {})
        listed = planning.static_members(group)
        members = seen.pods if listed is None else listed
        if members is None:
            raise planning.MissingError(
                "PodsUnknown", f"{group}: its pods could not be listed; it is tried again"
            )
        return cls(members, {})

    def assignments(self, plan: Plan) -> list[Assigned]:
        """Write the plan down; a slot that drained is gone."""
        zones = {member.id: member.zone or "" for member in self.members}
        found = []
        for name in plan.assignment:
            queues = [
                OwnedQueues(topic, broker, ids)
                for (topic, broker), ids in plan.assignment.ids(name).items()
            ]
            place = self.places.get(name)
            if place is None:
                found.append(Assigned(name, zone=zones.get(name, ""), queues=queues))
            elif queues or not place.is_draining:
                seat: Seat = place.seat
                found.append(
                    Assigned(
                        name, seat.executor, seat.pod, seat.zone,
                        place.empty_since, place.is_draining, queues,
                    )
                )  # fmt: skip
        return found


def _choose(group: Group, seen: Seen, queues: Sequence[QueueRange], taken: _Taken) -> Plan:
    """Plan; only what cannot wait moves while a group is paused or its job lags an epoch behind."""
    job = group.spec.job
    grace = times.seconds(group.spec.rebalance.grace) if job else 0.0
    policy = planning.policy_of(group.spec.strategy, grace)
    if findings.is_paused(group):
        calm = Policy(STICKY, pinned=policy.pinned, max_moves=0, grace_seconds=grace)
        return planning.plan_group(group, queues, taken.members, calm)
    is_behind = (
        findings.is_running(seen.job) and _adopted(group.status, seen.job) < group.status.epoch
    )
    if is_behind and policy.strategy == STICKY:
        policy = replace(policy, max_moves=0)
    if planning.goes_by_rate(group.spec.strategy):
        policy = replace(policy, weights=seen.weights)
    return planning.plan_group(group, queues, taken.members, policy)


def _adopted(status: GroupStatus, job: JobSeen | None) -> int:
    report = job.report if job else None
    return max(status.adopted_epoch, report.adopted_epoch) if report else status.adopted_epoch


def _shares(assignments: Sequence[Assigned]) -> dict[str, list[OwnedQueues]]:
    """What a job needs to hear of: its slots and their queues."""
    return {each.consumer: each.queues for each in assignments}


def _trigger(group: Group, status: GroupStatus, queues: Sequence[QueueRange]) -> str:
    """Say what was seen, by what differs from last time."""
    old = group.status
    if old.observed_generation != group.head.generation:
        return "SpecChanged"
    if old.queues != status.queues or _names(queues) != _names_of(old.assignments):
        return "RouteChanged"
    if {each.consumer for each in old.assignments} != {
        each.consumer for each in status.assignments
    }:
        return "ConsumersChanged"
    if [each.empty_since for each in old.assignments] != [
        each.empty_since for each in status.assignments
    ]:
        return "ConsumersChanged"
    return "Interval"


def _names(queues: Sequence[QueueRange]) -> set[tuple[str, str]]:
    return {(each.topic, each.broker) for each in queues}


def _names_of(assignments: Sequence[Assigned]) -> set[tuple[str, str]]:
    return {(queues.topic, queues.broker) for each in assignments for queues in each.queues}


def _explained(plan: Plan) -> str:
    """Say which queues moved from whom to whom, and why."""
    moves = [move for move in plan.moves if move.source is not None]
    return "; ".join(map(_shown, moves))


def _shown(move: Move) -> str:
    target = move.target or "nobody"
    queues = ", ".join(f"{each.topic}@{each.broker} {format_ids([each])}" for each in move.queues)
    return f"{move.source} -> {target}, {move.reason}: {queues}"


def _decided(
    group: Group,
    status: GroupStatus,
    found: Sequence[Finding],
    now: datetime,
    happened: Sequence[Happened] = (),
    lag: int | None = None,
) -> Decision:
    """Finish a status: conditions, generation, and the lag if that is worth a write."""
    generation = group.head.generation
    status = replace_status(
        status,
        observed_generation=generation,
        conditions=conditions.merged(group.status.conditions, found, generation, now),
    )
    status = lagging.noted(group.status, status, lag)
    return Decision(status, [*happened, *_turned(group.status.conditions, status.conditions)])


def _turned(old: Sequence[Condition], new: Sequence[Condition]) -> list[Happened]:
    """Tell of trouble once, when it begins or changes its nature."""
    before, after = conditions.find(old, "Ready"), conditions.find(new, "Ready")
    if after is None or after.status is ConditionStatus.TRUE:
        return []
    if after.reason in PASSING or (before and before.reason == after.reason):
        return []
    return [Happened(after.reason, after.message or after.reason, is_warning=True)]
