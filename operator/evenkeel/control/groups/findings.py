"""Checks the state of a group, and makes a finding for each condition. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.groups import Assigned
from contract.names import PAUSED
from evenkeel import planning
from evenkeel.control.conditions import Finding
from evenkeel.control.groups.surroundings import NOT_ASKED, GroupSurroundings
from evenkeel.control.jobs.states import JobSeen, JobState
from evenkeel.objects import ConsumerGroup
from lb_core.plan import Plan


def check_group(group: ConsumerGroup, seen: GroupSurroundings, plan: Plan) -> list[Finding]:
    """Check a group that has a plan."""
    return _collect(group, seen, _check_assigned(group, seen, plan), _check_balanced(group, plan))


def check_broadcast(
    group: ConsumerGroup, seen: GroupSurroundings, *, has_readers: bool
) -> list[Finding]:
    """Check a group with message model Broadcasting, in which each consumer reads all queues."""
    assigned = _check_conflicted(seen)
    if assigned is None and not has_readers:
        text = "there are no consumers"
        assigned = Finding(ConditionType.ASSIGNED, False, ConditionReason.UNOWNED, text)
    everything = ConditionReason.BROADCASTING
    assigned = assigned or _check_unreadable(group, seen)
    assigned = assigned or Finding(ConditionType.ASSIGNED, True, everything)
    return _collect(group, seen, assigned, Finding(ConditionType.BALANCED, True, everything))


def check_by_message(
    group: ConsumerGroup, seen: GroupSurroundings, *, has_readers: bool
) -> list[Finding]:
    """Check a group that is balanced by message without an order: any member gets any message."""
    by_message = ConditionReason.BY_MESSAGE
    assigned = _check_unreadable(group, seen) or Finding(ConditionType.ASSIGNED, True, by_message)
    if (why := _explain_off(group, seen)) is not None:
        assigned = Finding(ConditionType.ASSIGNED, False, ConditionReason.NOT_RUNNING, why)
    elif group.spec.job is None and (conflicted := _check_conflicted(seen)) is not None:
        assigned = conflicted
    elif (unfit := _check_pops(seen)) is not None:
        assigned = unfit
    elif not has_readers:
        text = "no member has a session"
        assigned = Finding(ConditionType.ASSIGNED, False, ConditionReason.UNOWNED, text)
    seen = replace(seen, held=None)  # no member holds queues
    return _collect(group, seen, assigned, Finding(ConditionType.BALANCED, True, by_message))


def _check_pops(seen: GroupSurroundings) -> Finding | None:
    """Find out why members that pop may get no messages."""
    if seen.pop_trouble is None:
        return None
    is_early = seen.pop_trouble == NOT_ASKED
    reason = ConditionReason.STARTING if is_early else ConditionReason.BROKERS_UNFIT
    return Finding(ConditionType.ASSIGNED, False, reason, seen.pop_trouble)


def check_balance_change(group: ConsumerGroup, seen: GroupSurroundings, text: str) -> list[Finding]:
    """Check a group whose members stop reading in one way before they begin in the other."""
    changes = ConditionReason.BALANCE_CHANGES
    assigned = _check_conflicted(seen) or Finding(ConditionType.ASSIGNED, False, changes, text)
    seen = replace(seen, held=None)  # nobody follows an assignment now
    return _collect(group, seen, assigned, Finding(ConditionType.BALANCED, False, changes, text))


def _collect(
    group: ConsumerGroup, seen: GroupSurroundings, assigned: Finding, balanced: Finding
) -> list[Finding]:
    advisory = []
    if group.spec.job is None and not planning.has_members(group):
        text = "the assignment is published for consumers to follow"
        advisory = [Finding(ConditionType.ADVISORY, True, ConditionReason.NO_JOB, text)]
    conflicted = []
    if seen.conflict:
        reason, text = seen.conflict.reason, seen.conflict.message
        conflicted = [Finding(ConditionType.CONFLICTED, True, reason, text)]
    found = [
        *check_job(group, seen),
        *_check_paused(group),
        *_check_followed(seen),
        *advisory,
        *conflicted,
    ]
    return [_check_ready(group, seen, assigned), assigned, balanced, *found]


def report_problem(
    group: ConsumerGroup, seen: GroupSurroundings, reason: ConditionReason, message: str
) -> list[Finding]:
    """Report why a group cannot be planned now."""
    kept = "the assignment does not change" if group.status.epoch else "nothing was assigned yet"
    holds = None if group.status.epoch else False
    assigned = Finding(ConditionType.ASSIGNED, holds, reason, kept)
    job = check_job(group, seen)
    if job and seen.unseen is not None:
        job = [Finding(ConditionType.JOB_RUNNING, None, reason, seen.unseen)]
    return [Finding(ConditionType.READY, False, reason, message), assigned, *job]


def _check_assigned(group: ConsumerGroup, seen: GroupSurroundings, plan: Plan) -> Finding:
    if (why := _explain_off(group, seen)) is not None:
        return Finding(ConditionType.ASSIGNED, False, ConditionReason.NOT_RUNNING, why)
    if group.spec.job is None and (conflicted := _check_conflicted(seen)):
        return conflicted
    if (unfit := _check_pops(seen)) is not None:
        return unfit
    if plan.unowned:
        count = sum(map(len, plan.unowned.queues))
        text = f"{count} queues have no owner: {plan.unowned.reason}"
        return Finding(ConditionType.ASSIGNED, False, ConditionReason.UNOWNED, text)
    return _check_unreadable(group, seen) or Finding(
        ConditionType.ASSIGNED, True, ConditionReason.ALL_OWNED
    )


def _check_unreadable(group: ConsumerGroup, seen: GroupSurroundings) -> Finding | None:
    """Find queues to which clients may write, but from which they may not read."""
    found = planning.find_unreadable(group, seen.topics)
    if not found:
        return None
    where = "; ".join(f"{topic} on {', '.join(brokers)}" for topic, brokers in found.items())
    text = f"the perm lacks READ, so no messages are read on: {where}"
    return Finding(ConditionType.ASSIGNED, False, ConditionReason.NOT_READABLE, text)


def _check_followed(seen: GroupSurroundings) -> list[Finding]:
    """Check whether members read the queues that they own; no finding without members."""
    if seen.held is None:
        return []
    waiting = seen.held.leaving_queues + seen.held.waiting_queues
    if waiting:
        text = (
            f"{waiting} queues are being handed over to another member, or have no member that may "
            "read them"
        )
        return [Finding(ConditionType.FOLLOWED, False, ConditionReason.HANDING_OVER, text)]
    if seen.held.lent_queues:
        text = (
            f"{seen.held.lent_queues} queues are read by other members, because their owners have "
            "no session"
        )
        return [Finding(ConditionType.FOLLOWED, False, ConditionReason.LENT, text)]
    return [Finding(ConditionType.FOLLOWED, True, ConditionReason.READ_BY_OWNERS)]


def _check_conflicted(seen: GroupSurroundings) -> Finding | None:
    if seen.conflict is None or not seen.conflict.stops:
        return None
    text = "nothing is assigned, so that no message is read twice"
    return Finding(ConditionType.ASSIGNED, False, seen.conflict.reason, text)


def _check_balanced(group: ConsumerGroup, plan: Plan) -> Finding:
    if not plan.assignment:
        return Finding(ConditionType.BALANCED, None, ConditionReason.NO_CONSUMERS)
    if plan.deferred:
        count = sum(move.size for move in plan.deferred)
        text = f"{count} queues move later"
        return Finding(ConditionType.BALANCED, False, ConditionReason.DEFERRED, text)
    if plan.idle:
        text = f"{len(plan.idle)} consumers have no queue: there are more consumers than queues"
        return Finding(ConditionType.BALANCED, False, ConditionReason.IDLE_CONSUMERS, text)
    is_sticky = planning.find_strategy(group.spec.strategy).is_sticky
    if not is_sticky and plan.imbalance > plan.best_imbalance:
        best = f"{plan.best_imbalance:.2f}"
        text = f"the strategy gives imbalance {plan.imbalance:.2f}; Sticky would reach {best}"
        return Finding(ConditionType.BALANCED, False, ConditionReason.UNEVEN, text)
    return Finding(ConditionType.BALANCED, True, ConditionReason.EVEN)


def _check_paused(group: ConsumerGroup) -> list[Finding]:
    if is_paused(group):
        text = "only queues without an owner get a new owner"
        return [Finding(ConditionType.PAUSED, True, ConditionReason.ASKED, text)]
    said = group.head.annotations.get(PAUSED, "false")
    if said != "false":
        text = f'the annotation {PAUSED} is "{said[:64]}", but only "true" pauses the group'
        return [Finding(ConditionType.PAUSED, False, ConditionReason.NOT_UNDERSTOOD, text)]
    return []


def check_drained(
    group: ConsumerGroup, seen: GroupSurroundings, assignments: Sequence[Assigned]
) -> list[Finding]:
    """Check whether the pods to drain still own queues; no finding without such pods."""
    if not group.to_drain:
        return []
    busy = _count_owned(assignments) if group.spec.job is None else _find_slots(seen)
    left = [f"{name} {busy[name]}" for name in sorted(group.to_drain & busy.keys())]
    if left:
        return [Finding(ConditionType.DRAINED, False, ConditionReason.DRAINING, "; ".join(left))]
    names = ", ".join(sorted(group.to_drain))
    text = f"no queues are read by {names}"
    return [Finding(ConditionType.DRAINED, True, ConditionReason.EMPTY, text)]


def _count_owned(assignments: Sequence[Assigned]) -> dict[str, str]:
    """Describe how many queues each consumer owns, by its pod's name or, without a pod, its id."""
    counts = {
        each.pod or each.consumer: sum(map(len, planning.read_owned(each))) for each in assignments
    }
    return {name: f"has {count} queues" for name, count in counts.items() if count}


def _find_slots(seen: GroupSurroundings) -> dict[str, str]:
    """Describe which slot each executor fills; empty if no driver runs."""
    report = seen.job.report if seen.job else None
    slots = report.slots if report else {}
    return {seat.pod or seat.executor: f"fills {slot}" for slot, seat in slots.items()}


def _explain_off(group: ConsumerGroup, seen: GroupSurroundings) -> str | None:
    """Explain why the job does not run, if that is intended."""
    if group.spec.job is None:
        return None
    if group.spec.suspend:
        return "spec.suspend is true"
    if not group.spec.job.executors:
        return "spec.job.executors is 0"
    if group.spec.job.schedule and seen.job and seen.job.state is JobState.ENDED:
        return seen.job.message
    return None


def check_job(group: ConsumerGroup, seen: GroupSurroundings) -> list[Finding]:
    """Check the job, if the group has one."""
    if group.spec.job is None:
        return []
    job = seen.job or JobSeen(JobState.ENDED)
    engine = f"engine {job.report.engine}" if job.report and job.report.engine else ""
    text = job.message or engine
    found = [Finding(ConditionType.JOB_RUNNING, is_running(job), job.state.value, text)]
    if job.report is not None and is_running(job):
        pinned = job.report.is_pinned
        text = "" if pinned else "Spark has not run tasks on their assigned executors yet"
        reason = ConditionReason.SEEN if pinned else ConditionReason.NOT_SEEN
        found.append(Finding(ConditionType.PINNED, pinned, reason, text))
    return found


def _check_ready(group: ConsumerGroup, seen: GroupSurroundings, assigned: Finding) -> Finding:
    if seen.conflict:
        return Finding(ConditionType.READY, False, seen.conflict.reason, seen.conflict.message)
    if assigned.reason is ConditionReason.NOT_RUNNING:
        return Finding(ConditionType.READY, True, ConditionReason.NOT_RUNNING, assigned.message)
    if not assigned.holds:
        return Finding(ConditionType.READY, False, assigned.reason, assigned.message)
    job = seen.job
    if group.spec.job is not None and not is_running(job):
        state = job.state if job else JobState.STARTING
        return Finding(ConditionType.READY, False, state.value, job.message if job else "")
    if job is not None and job.report is not None and job.report.error:
        return Finding(ConditionType.READY, False, ConditionReason.JOB_REPORTS, job.report.error)
    if job is not None and job.message:
        return Finding(ConditionType.READY, False, ConditionReason.JOB_CHANGES, job.message)
    reason = ConditionReason.RUNNING if group.spec.job else ConditionReason.ASSIGNED
    return Finding(ConditionType.READY, True, reason)


def is_paused(group: ConsumerGroup) -> bool:
    """Whether only queues without an owner may get a new owner."""
    return group.spec.rebalance.paused or group.head.annotations.get(PAUSED) == "true"


def is_running(job: JobSeen | None) -> bool:
    """Whether the driver runs and reports."""
    return job is not None and job.state is JobState.RUNNING
