"""
What follows from what is seen around a group: its next status, and what people should hear. Pure.

Called again with the status that it made, it makes the same one, and then nothing is written. What
cannot be seen or planned leaves the assignment as it is, and says so in the conditions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from contract import names
from contract.conditions import ConditionReason, ConditionType
from contract.kinds.groups import (
    MOST_OWNED,
    Assigned,
    GroupStatus,
    LastRebalance,
    LastSkip,
    MessageModel,
    OwnedQueues,
)
from contract.kinds.parts import Condition, ConditionStatus
from contract.report import SkipReport
from evenkeel import planning, rebalances, times
from evenkeel.control import conditions
from evenkeel.control.conditions import Finding
from evenkeel.control.conflicts import Conflict
from evenkeel.control.groups import allowed_moves, findings, measured_figures, rebalance_trigger
from evenkeel.control.groups.surroundings import GroupSurroundings
from evenkeel.control.jobs.job_slots import JobSlot, places
from evenkeel.control.jobs.states import JobSeen, Seat
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup
from lb_core.assignment import format_ids
from lb_core.model import Member, QueueRange
from lb_core.plan import Plan

MOST_TEXT = 4000
MOST_OF_AN_EVENT = 1000
MOST_PLACES = 100_000
"""Entries of queues in an assignment. With the longest names they are still written in time."""
PASSING = (ConditionReason.STARTING, ConditionReason.ROUTE_PENDING, ConditionReason.JOB_ENDS)
"""Reasons that groups have at their start, or while what was asked for comes about."""


@dataclass(frozen=True, slots=True)
class Happened:
    """What people should hear of: an Event in Kubernetes."""

    reason: str
    message: str
    is_warning: bool = False
    rebalance: LastRebalance | None = None
    """What it tells of, for programs."""


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """What follows."""

    status: GroupStatus
    happened: Sequence[Happened] = ()
    look_again_seconds: float | None = None
    """When the same sight brings something else, as a grace ends."""
    plan: Plan | None = None
    """None where there could be none."""


def decide(group: ConsumerGroup, seen: GroupSurroundings, now: datetime) -> GroupDecision:
    """Decide what a group's status shall be."""
    group = replace(group, status=replace_status(group.status, claims=list(seen.claims)))
    if seen.job is not None:
        group = replace(group, status=replace_status(group.status, job=seen.job.record))
    skip = _news_of_skip(group.status, seen.skipped, now)
    if skip is not None:
        group = replace(group, status=replace_status(group.status, last_skip=skip))
    try:
        decision = _planned(group, seen, now)
    except ManifestError as problem:
        reason = ConditionReason.INVALID_SPEC
        if isinstance(problem, planning.NotReadyError):
            reason = problem.reason
        found = findings.stuck(group, seen, reason, str(problem))
        decision = _decided(group, group.status, found, now, lag=seen.lag)
    return decision if skip is None else _told(decision, skip)


def is_wanted(group: ConsumerGroup, conflict: Conflict | None) -> bool:
    """Whether the group's job shall run now."""
    job = group.spec.job
    is_asked = bool(job and job.executors and not group.spec.suspend and not group.head.is_going)
    return is_asked and not (conflict is not None and conflict.stops)


def _planned(group: ConsumerGroup, seen: GroupSurroundings, now: datetime) -> GroupDecision:
    if seen.unseen is not None:
        raise planning.NotReadyError(ConditionReason.NAMESPACE_FORBIDDEN, f"{group}: {seen.unseen}")
    if group.spec.job is not None:
        planning.refuse_long_name(group)
    elif seen.job is not None:
        raise planning.NotReadyError(
            ConditionReason.JOB_ENDS,
            f"{group}: the driver of the job that it had still reads; its consumers get queues "
            "when that has ended",
        )
    queues = planning.queues_of(group, seen.topics)
    taken = _Taken.of(group, seen, now)
    if group.spec.message_model is MessageModel.BROADCASTING:
        return _broadcast(group, seen, queues, taken.members, now)
    kept = group.status
    adopted = _adopted(kept, seen.job)
    is_behind = findings.is_running(seen.job) and adopted < kept.epoch
    plan = allowed_moves.plan_allowed_moves(group, seen, queues, taken.members, is_behind=is_behind)
    assignments = taken.assignments(plan)
    _refuse_too_long(group, assignments)
    # A job whose checkpoint is older than this object knows a higher epoch, and follows none below.
    has_changed = _shares(assignments) != _shares(kept.assignments) or adopted > kept.epoch
    moved = plan.moved if has_changed else 0
    status = replace_status(
        kept,
        epoch=max(kept.epoch, adopted) + has_changed,
        queues=sum(map(len, queues)),
        consumers=len(taken.members),
        executors=len(taken.places),
        selector=names.select_executors(group.head.key.name) if group.spec.job else "",
        moved=kept.moved + moved,
        rebalanced_for=group.rebalance_asked or kept.rebalanced_for,
        imbalance=f"{plan.imbalance:.2f}",
        best_imbalance=f"{plan.best_imbalance:.2f}",
        assignments=assignments,
        adopted_epoch=adopted,
    )
    happened = []
    if moved:
        trigger = rebalance_trigger.find_trigger(group, status, queues)
        last = rebalances.record(plan, times.shown(now), status.epoch, trigger)
        status = replace_status(status, last_rebalance=last)
        happened.append(_tell_rebalance(last))
    found = [*findings.all_about(group, seen, plan), *findings.drained(group, seen, assignments)]
    decision = _decided(group, status, found, now, happened, seen.lag)
    return replace(decision, look_again_seconds=plan.look_again_seconds, plan=plan)


def _broadcast(
    group: ConsumerGroup,
    seen: GroupSurroundings,
    queues: Sequence[QueueRange],
    members: Sequence[Member],
    now: datetime,
) -> GroupDecision:
    """Give every queue to everybody: there is nothing to plan, and nothing moves."""
    kept = group.status
    everything = [OwnedQueues(each.topic, each.broker, format_ids([each])) for each in queues]
    has_others = not all(each.draining for each in members)
    assignments = [
        Assigned(
            each.id,
            zone=each.zone or "",
            draining=each.draining,
            queues=[] if each.draining and has_others else everything,
        )
        for each in sorted(members, key=lambda each: each.id)
    ]
    _refuse_too_long(group, assignments)
    has_changed = _shares(assignments) != _shares(kept.assignments)
    status = replace_status(
        kept,
        epoch=kept.epoch + has_changed,
        queues=sum(map(len, queues)),
        consumers=len(members),
        rebalanced_for=group.rebalance_asked or kept.rebalanced_for,
        imbalance="1.00",
        best_imbalance="1.00",
        assignments=assignments,
    )
    found = findings.about_broadcast(group, seen, has_readers=bool(members))
    found += findings.drained(group, seen, assignments)
    return _decided(group, status, found, now, lag=seen.lag)


def replace_status(status: GroupStatus, **changes: object) -> GroupStatus:
    """Make a status that differs in this."""
    return msgspec.structs.replace(status, **changes)


@dataclass(frozen=True, slots=True)
class _Taken:
    """Who takes part, and for a job the slots behind the names."""

    members: Sequence[Member]
    places: dict[str, JobSlot]

    @classmethod
    def of(cls, group: ConsumerGroup, seen: GroupSurroundings, now: datetime) -> "_Taken":
        job = group.spec.job
        if job is not None:
            report = seen.job.report if seen.job else None
            found = places(group, job.executors, report, now)
            return cls(found.members, dict(found.by_name))
        if seen.conflict is not None:  # who follows the assignment would read what others read
            return cls((), {})
        listed = planning.static_members(group)
        members = seen.pods if listed is None else listed
        if members is None and planning.has_members(group):
            raise planning.NotReadyError(
                ConditionReason.MEMBERS_UNKNOWN,
                f"{group}: its members are not known yet. They are once spec.consumers.members."
                "session has passed since evenkeel run began; a cluster has no members so far",
            )
        if members is None:
            raise planning.NotReadyError(
                ConditionReason.PODS_UNKNOWN,
                f"{group}: its pods could not be listed; it is tried again",
            )
        return cls([replace(each, draining=each.id in group.to_drain) for each in members], {})

    def assignments(self, plan: Plan) -> list[Assigned]:
        """Write the plan down; a slot that drained is gone."""
        by_id = {member.id: member for member in self.members}
        found = []
        for name in plan.assignment:
            queues = [
                entry
                for (topic, broker), ids in plan.assignment.list_ids(name).items()
                for entry in planning.entries(topic, broker, ids)
            ]
            place = self.places.get(name)
            if place is None:
                member = by_id[name]
                zone = member.zone or ""
                found.append(Assigned(name, zone=zone, draining=member.draining, queues=queues))
            elif queues or not place.is_draining:
                seat: Seat = place.seat
                found.append(
                    Assigned(
                        name, seat.executor, seat.pod, seat.zone,
                        place.empty_since, place.is_draining, queues,
                    )
                )  # fmt: skip
        return found


def _adopted(status: GroupStatus, job: JobSeen | None) -> int:
    report = job.report if job else None
    return max(status.adopted_epoch, report.adopted_epoch) if report else status.adopted_epoch


def _shares(assignments: Sequence[Assigned]) -> dict[str, list[OwnedQueues]]:
    """What a job needs to hear of: its slots and their queues."""
    return {each.consumer: each.queues for each in assignments}


def _refuse_too_long(group: ConsumerGroup, assignments: Sequence[Assigned]) -> None:
    """Refuse what the status cannot hold, before the API server does."""
    for each in assignments:
        if len(each.queues) > MOST_OWNED:
            raise ManifestError(
                f"{group}: {each.consumer} would have queues in {len(each.queues):,} places, of "
                f"{MOST_OWNED:,} that a status can name; give the group fewer topics"
            )
    count = sum(len(each.queues) for each in assignments)
    if count > MOST_PLACES:  # in Broadcasting: else there are not even so many queues
        raise ManifestError(
            f"{group}: {len(assignments):,} consumers would have queues in {count:,} places, of "
            f"{MOST_PLACES:,} that can be published; give the group fewer topics or consumers"
        )


def _tell_rebalance(last: LastRebalance) -> Happened:
    about = f"epoch {last.epoch}, {last.trigger}: "
    message = about + rebalances.describe(last, MOST_OF_AN_EVENT - len(about))
    return Happened("Rebalanced", message, rebalance=last)


def _decided(
    group: ConsumerGroup,
    status: GroupStatus,
    found: Sequence[Finding],
    now: datetime,
    happened: Sequence[Happened] = (),
    lag: int | None = None,
) -> GroupDecision:
    """Finish a status: conditions, generation, and the lag if that is worth a write."""
    generation = group.head.generation
    status = replace_status(
        status,
        observed_generation=generation,
        conditions=conditions.merged(group.status.conditions, found, generation, now),
    )
    status = measured_figures.set_lag(group.status, status, lag)
    return GroupDecision(status, [*happened, *_turned(group.status.conditions, status.conditions)])


def _news_of_skip(
    status: GroupStatus, skipped: SkipReport | None, now: datetime
) -> LastSkip | None:
    known = status.last_skip
    if skipped is None or (known is not None and known.value == skipped.value):
        return None
    return LastSkip(times.shown(now), skipped.value, skipped.messages, skipped.lost[:MOST_TEXT])


def _told(decision: GroupDecision, skip: LastSkip) -> GroupDecision:
    """Let people hear of what the job has passed over."""
    text = f"{skip.messages} messages were passed over as asked: {skip.lost or 'none was lost'}"
    heard = Happened("Skipped", text[:MOST_OF_AN_EVENT], is_warning=bool(skip.lost))
    return replace(decision, happened=[*decision.happened, heard])


def _turned(old: Sequence[Condition], new: Sequence[Condition]) -> list[Happened]:
    """Tell of trouble once, when it begins or changes its nature."""
    before, after = (conditions.find(each, ConditionType.READY) for each in (old, new))
    if after is None or after.status is ConditionStatus.TRUE:
        return []
    if after.reason in PASSING or (before and before.reason == after.reason):
        return []
    return [Happened(after.reason, after.message or after.reason, is_warning=True)]
