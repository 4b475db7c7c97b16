"""
Decides the next status of a group, and the Events to write. Pure.

Decisions are idempotent: if a group already has the decided status, the next decision is the same
status, so nothing is written. If something cannot be observed or planned, the assignment stays, and
a condition gives the reason.
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
    Balance,
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
from evenkeel.control.groups import (
    allowed_moves,
    balance_change,
    findings,
    measured_figures,
    member_slots,
    rebalance_trigger,
)
from evenkeel.control.groups.member_slots import LiveMember
from evenkeel.control.groups.surroundings import MEMBERS_UNKNOWN, GroupSurroundings
from evenkeel.control.jobs.job_slots import JobSlot, update_slots
from evenkeel.control.jobs.states import JobSeen, SlotExecutor
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup
from lb_core.assignment import format_ids
from lb_core.model import Member, QueueRange
from lb_core.plan import Plan

MOST_TEXT = 4000
MOST_OF_AN_EVENT = 1000
MOST_PLACES = 100_000
"""Maximum number of queue entries in an assignment. A longer list could not be written in time."""
PASSING = (
    ConditionReason.STARTING,
    ConditionReason.ROUTE_PENDING,
    ConditionReason.JOB_ENDS,
    ConditionReason.BALANCE_CHANGES,
)
"""Reasons that are normal while a group starts or changes. No Events are written for them."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message to the user. In Kubernetes it becomes an Event."""

    reason: str
    message: str
    is_warning: bool = False
    rebalance: LastRebalance | None = None
    """The rebalance that the message describes, as data."""


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """The next status of a group, and what to do with it."""

    status: GroupStatus
    happened: Sequence[Notice] = ()
    look_again_seconds: float | None = None
    """When to decide again even if nothing changes, for example at the end of a grace."""
    plan: Plan | None = None
    """None if the group could not be planned."""


def decide(group: ConsumerGroup, seen: GroupSurroundings, now: datetime) -> GroupDecision:
    """Decide the next status of a group."""
    group = replace(group, status=replace_status(group.status, claims=list(seen.claims)))
    if seen.job is not None:
        group = replace(group, status=replace_status(group.status, job=seen.job.record))
    skip = _find_new_skip(group.status, seen.skipped, now)
    if skip is not None:
        group = replace(group, status=replace_status(group.status, last_skip=skip))
    try:
        decision = _plan(group, seen, now)
    except ManifestError as problem:
        reason = ConditionReason.INVALID_SPEC
        if isinstance(problem, planning.NotReadyError):
            reason = problem.reason
        found = findings.report_problem(group, seen, reason, str(problem))
        decision = _finish(group, seen, group.status, found, now)
    return decision if skip is None else _announce_skip(decision, skip)


def is_wanted(group: ConsumerGroup, conflict: Conflict | None) -> bool:
    """Whether the group's job must run now."""
    job = group.spec.job
    may_read = not group.head.is_going and not planning.is_changing_balance(group)
    is_asked = bool(job and job.executors and not group.spec.suspend and may_read)
    return is_asked and not (conflict is not None and conflict.stops)


def _plan(group: ConsumerGroup, seen: GroupSurroundings, now: datetime) -> GroupDecision:
    if seen.unseen is not None:
        raise planning.NotReadyError(ConditionReason.NAMESPACE_FORBIDDEN, f"{group}: {seen.unseen}")
    if group.spec.job is not None:
        planning.refuse_long_name(group)
    elif seen.job is not None:
        raise planning.NotReadyError(
            ConditionReason.JOB_ENDS,
            f"{group}: the driver of its former job still runs; consumers get queues after it has "
            "ended",
        )
    queues = planning.list_queues(group, seen.topics)
    balance_change.refuse_other_consumers(group)
    if planning.is_changing_balance(group):
        planning.read_last_plan(group.status)  # which raises if the assignment is not known
        waits = balance_change.explain_wait(group, seen)
        if waits is not None or not seen.are_positions_ready:
            return _wait_for_balance(group, seen, waits, now)
        decision = _plan(_take_balance(group), seen, now)
        return replace(decision, happened=[*_tell_balance(group), *decision.happened])
    if not planning.has_owners(group) and group.spec.job is None:
        return _share_messages(group, seen, queues, now)
    taken = _Participants.find(group, seen, now)
    members = group.spec.consumers.members if group.spec.consumers is not None else None
    if group.spec.message_model is MessageModel.BROADCASTING:
        return _broadcast(group, seen, queues, taken.members, now)
    kept = group.status
    adopted = _find_adopted(kept, seen.job)
    is_behind = findings.is_running(seen.job) and adopted < kept.epoch
    owned = queues if planning.has_owners(group) else []  # executors that pop own no queues
    plan = allowed_moves.plan_allowed_moves(group, seen, owned, taken.members, is_behind=is_behind)
    assignments = taken.list_assignments(plan)
    _refuse_too_long(group, assignments)
    # If this object is new, the job's checkpoint may have a higher epoch than the object. A job
    # only follows epochs that are higher than its own.
    has_changed = (
        _collect_shares(assignments) != _collect_shares(kept.assignments) or adopted > kept.epoch
    )
    moved = plan.moved if has_changed else 0
    status = replace_status(
        kept,
        epoch=max(kept.epoch, adopted) + has_changed,
        queues=sum(map(len, queues)),
        consumers=len(taken.members),
        executors=len(taken.slots) if group.spec.job else 0,
        selector=names.select_executors(group.head.key.name) if group.spec.job else "",
        moved=kept.moved + moved,
        rebalanced_for=group.rebalance_asked or kept.rebalanced_for,
        imbalance=f"{plan.imbalance:.2f}",
        best_imbalance=f"{plan.best_imbalance:.2f}",
        assignments=assignments,
        adopted_epoch=adopted,
        session=members.session if members is not None else "",
    )
    happened = []
    if moved:
        trigger = rebalance_trigger.find_trigger(group, status, queues)
        last = rebalances.record(plan, times.format_time(now), status.epoch, trigger)
        status = replace_status(status, last_rebalance=last)
        happened.append(_tell_rebalance(last))
    if planning.has_owners(group):
        found = findings.check_group(group, seen, plan)
    else:
        found = findings.check_by_message(group, seen, has_readers=True)
    found += findings.check_drained(group, seen, assignments)
    decision = _finish(group, seen, status, found, now, happened)
    soon = (plan.look_again_seconds, taken.look_again_seconds)
    look_again = min((each for each in soon if each is not None), default=None)
    return replace(decision, look_again_seconds=look_again, plan=plan)


def _broadcast(
    group: ConsumerGroup,
    seen: GroupSurroundings,
    queues: Sequence[QueueRange],
    members: Sequence[Member],
    now: datetime,
) -> GroupDecision:
    """Assign all queues to each consumer. Nothing is planned, and no queue moves."""
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
    has_changed = _collect_shares(assignments) != _collect_shares(kept.assignments)
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
    found = findings.check_broadcast(group, seen, has_readers=bool(members))
    found += findings.check_drained(group, seen, assignments)
    return _finish(group, seen, status, found, now)


def _wait_for_balance(
    group: ConsumerGroup, seen: GroupSurroundings, waits: str | None, now: datetime
) -> GroupDecision:
    """Let nobody read until all have stopped reading in the old way."""
    kept = group.status
    had_queues = any(each.queues for each in kept.assignments)
    status = replace_status(
        kept,
        epoch=kept.epoch + had_queues,
        assignments=[msgspec.structs.replace(each, queues=[]) for each in kept.assignments],
    )
    why = waits or seen.positions_trouble or "the positions at the brokers are moved now"
    before = _describe_balance(kept.balance, is_ordered=kept.ordered)
    after = _describe_balance(group.spec.balance, is_ordered=planning.is_ordered(group))
    text = f"balance changes from {before} to {after}: {why}"
    if planning.is_by_message(group) and _has_never_read(kept):
        who = "members" if group.spec.job is None else "executors"
        text = f"{who} may not pop yet: {why}"
    found = findings.check_balance_change(group, seen, text)
    return _finish(group, seen, status, found, now)


def _has_never_read(status: GroupStatus) -> bool:
    return not status.epoch and status.balance is Balance.QUEUES


def _describe_balance(balance: Balance, *, is_ordered: bool) -> str:
    return f"{balance.value} in order" if is_ordered else balance.value


def _take_balance(group: ConsumerGroup) -> ConsumerGroup:
    """Let members read in the new way from now on. Names of poppers must not be taken for slots."""
    # Messages that were popped in order come again in their queue.
    has_leftovers = group.status.leftovers or not planning.had_owners(group)
    status = replace_status(
        group.status,
        balance=group.spec.balance,
        ordered=planning.is_ordered(group),
        leftovers=has_leftovers and planning.has_owners(group),
        assignments=[],
    )
    return replace(group, status=status)


def _tell_balance(group: ConsumerGroup) -> list[Notice]:
    """Tell that the balance has changed, unless nobody has ever read."""
    by_message = planning.is_by_message(group)
    if by_message and _has_never_read(group.status):
        return []
    way = "by message" if by_message else "by queue"
    if planning.is_ordered(group):
        way = "by message, in the order of each queue,"
    return [Notice("BalanceChanged", f"members read {way} from now on")]


def _share_messages(
    group: ConsumerGroup, seen: GroupSurroundings, queues: Sequence[QueueRange], now: datetime
) -> GroupDecision:
    """List the members. Brokers decide which of them gets a message, so nothing is planned."""
    settings = group.spec.consumers.members if group.spec.consumers is not None else None
    # During a conflict nobody may pop, because messages would be read twice.
    is_stopped = seen.conflict is not None and seen.conflict.stops
    live = () if is_stopped else _require_live(group, seen)
    status = replace_status(
        group.status,
        queues=sum(map(len, queues)),
        consumers=len(live),
        rebalanced_for=group.rebalance_asked or group.status.rebalanced_for,
        assignments=[Assigned(name) for name in sorted(each.name for each in live)],
        session=settings.session if settings is not None else "",
    )
    found = findings.check_by_message(group, seen, has_readers=bool(live))
    return _finish(group, seen, status, found, now)


def _require_live(group: ConsumerGroup, seen: GroupSurroundings) -> Sequence[LiveMember]:
    if seen.live is None:
        raise planning.NotReadyError(
            ConditionReason.MEMBERS_UNKNOWN,
            f"{group}: {MEMBERS_UNKNOWN}",
        )
    return seen.live


def replace_status(status: GroupStatus, **changes: object) -> GroupStatus:
    """Copy a status with these changes."""
    return msgspec.structs.replace(status, **changes)


@dataclass(frozen=True, slots=True)
class _Participants:
    """The consumers of a group and, for a job or members, the slots."""

    members: Sequence[Member]
    slots: dict[str, JobSlot]
    look_again_seconds: float | None = None

    @classmethod
    def find(cls, group: ConsumerGroup, seen: GroupSurroundings, now: datetime) -> "_Participants":
        job = group.spec.job
        if job is not None:
            report = seen.job.report if seen.job else None
            found = update_slots(group, job.executors, report, now)
            return cls(found.members, dict(found.by_name))
        # Without this check, messages would be read twice.
        if seen.conflict is not None and seen.conflict.stops:
            return cls((), {})
        if planning.has_members(group):
            return cls._find_live(group, seen, now)
        listed = planning.list_static_members(group)
        members = seen.pods if listed is None else listed
        if members is None:
            raise planning.NotReadyError(
                ConditionReason.PODS_UNKNOWN,
                f"{group}: its pods could not be listed; the list is retried",
            )
        return cls([replace(each, draining=each.id in group.to_drain) for each in members], {})

    @classmethod
    def _find_live(
        cls, group: ConsumerGroup, seen: GroupSurroundings, now: datetime
    ) -> "_Participants":
        found = member_slots.update_slots(group, _require_live(group, seen), now)
        return cls(found.members, dict(found.by_name), found.look_again_seconds)

    def list_assignments(self, plan: Plan) -> list[Assigned]:
        """List the assignments of a plan, without drained slots."""
        by_id = {member.id: member for member in self.members}
        found = []
        for name in plan.assignment:
            queues = [
                entry
                for (topic, broker), ids in plan.assignment.list_ids(name).items()
                for entry in planning.split_entries(topic, broker, ids)
            ]
            place, member = self.slots.get(name), by_id[name]
            if place is None:
                zone = member.zone or ""
                found.append(Assigned(name, zone=zone, draining=member.draining, queues=queues))
            elif queues or not place.is_draining:
                seat: SlotExecutor = place.seat
                found.append(
                    Assigned(
                        name, seat.executor, seat.pod, seat.zone,
                        place.empty_since, member.draining, queues,
                    )
                )  # fmt: skip
        return found


def _find_adopted(status: GroupStatus, job: JobSeen | None) -> int:
    report = job.report if job else None
    return max(status.adopted_epoch, report.adopted_epoch) if report else status.adopted_epoch


def _collect_shares(assignments: Sequence[Assigned]) -> dict[str, list[OwnedQueues]]:
    """Collect the queues of each consumer. If they change, there is a new epoch."""
    return {each.consumer: each.queues for each in assignments}


def _refuse_too_long(group: ConsumerGroup, assignments: Sequence[Assigned]) -> None:
    """Refuse assignments that the API server would refuse because they are too long."""
    for each in assignments:
        if len(each.queues) > MOST_OWNED:
            raise ManifestError(
                f"{group}: {each.consumer} would have {len(each.queues):,} entries of queues; a "
                f"status can hold {MOST_OWNED:,}; give the group fewer topics"
            )
    count = sum(len(each.queues) for each in assignments)
    if count > MOST_PLACES:  # only a group with Broadcasting can have so many
        raise ManifestError(
            f"{group}: {len(assignments):,} consumers would have {count:,} entries of queues; "
            f"{MOST_PLACES:,} can be published; give the group fewer topics or consumers"
        )


def _tell_rebalance(last: LastRebalance) -> Notice:
    about = f"epoch {last.epoch}, {last.trigger}: "
    message = about + rebalances.describe(last, MOST_OF_AN_EVENT - len(about))
    return Notice("Rebalanced", message, rebalance=last)


def _finish(
    group: ConsumerGroup,
    seen: GroupSurroundings,
    status: GroupStatus,
    found: Sequence[Finding],
    now: datetime,
    happened: Sequence[Notice] = (),
) -> GroupDecision:
    """Add conditions, generation and measured figures to a status."""
    generation = group.head.generation
    status = replace_status(
        status,
        observed_generation=generation,
        conditions=conditions.merge(group.status.conditions, found, generation, now),
    )
    status = measured_figures.set_measured(group.status, status, seen, now)
    return GroupDecision(
        status, [*happened, *_announce_trouble(group.status.conditions, status.conditions)]
    )


def _find_new_skip(
    status: GroupStatus, skipped: SkipReport | None, now: datetime
) -> LastSkip | None:
    known = status.last_skip
    if skipped is None or (known is not None and known.value == skipped.value):
        return None
    return LastSkip(
        times.format_time(now), skipped.value, skipped.messages, skipped.lost[:MOST_TEXT]
    )


def _announce_skip(decision: GroupDecision, skip: LastSkip) -> GroupDecision:
    """Add a notice about the messages that the job has skipped."""
    text = (
        f"{skip.messages} messages were skipped as requested: {skip.lost or 'no message was lost'}"
    )
    heard = Notice("Skipped", text[:MOST_OF_AN_EVENT], is_warning=bool(skip.lost))
    return replace(decision, happened=[*decision.happened, heard])


def _announce_trouble(old: Sequence[Condition], new: Sequence[Condition]) -> list[Notice]:
    """Make a notice when the group becomes unready or the reason changes."""
    before, after = (conditions.find(each, ConditionType.READY) for each in (old, new))
    if after is None or after.status is ConditionStatus.TRUE:
        return []
    if after.reason in PASSING or (before and before.reason == after.reason):
        return []
    return [Notice(after.reason, after.message or after.reason, is_warning=True)]
