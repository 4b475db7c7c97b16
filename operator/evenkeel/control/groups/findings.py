"""What there is to say about a group, as its conditions say it. Pure."""

from collections.abc import Sequence

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.groups import Assigned
from contract.names import PAUSED
from evenkeel import planning
from evenkeel.control.conditions import Finding
from evenkeel.control.groups.surroundings import GroupSurroundings
from evenkeel.control.jobs.states import JobSeen, JobState
from evenkeel.objects import ConsumerGroup
from lb_core.plan import Plan


def all_about(group: ConsumerGroup, seen: GroupSurroundings, plan: Plan) -> list[Finding]:
    """Say everything about a group that is planned."""
    return _all(group, seen, _assigned(group, seen, plan), _balanced(group, plan))


def about_broadcast(
    group: ConsumerGroup, seen: GroupSurroundings, *, has_readers: bool
) -> list[Finding]:
    """Say everything about a group in which everybody reads everything."""
    assigned = _conflicted(seen)
    if assigned is None and not has_readers:
        text = "there are no consumers"
        assigned = Finding(ConditionType.ASSIGNED, False, ConditionReason.UNOWNED, text)
    everything = ConditionReason.BROADCASTING
    assigned = assigned or _unreadable(group, seen)
    assigned = assigned or Finding(ConditionType.ASSIGNED, True, everything)
    return _all(group, seen, assigned, Finding(ConditionType.BALANCED, True, everything))


def _all(
    group: ConsumerGroup, seen: GroupSurroundings, assigned: Finding, balanced: Finding
) -> list[Finding]:
    advisory = []
    if group.spec.job is None and not planning.has_members(group):
        text = "the assignment is published, and followed by whoever reads it"
        advisory = [Finding(ConditionType.ADVISORY, True, ConditionReason.NO_JOB, text)]
    conflicted = []
    if seen.conflict:
        reason, text = seen.conflict.reason, seen.conflict.message
        conflicted = [Finding(ConditionType.CONFLICTED, True, reason, text)]
    others = [assigned, balanced, *about_job(group, seen), *_paused(group), *advisory, *conflicted]
    return [_ready(group, seen, assigned), *others]


def stuck(
    group: ConsumerGroup, seen: GroupSurroundings, reason: ConditionReason, message: str
) -> list[Finding]:
    """Say why a group cannot be planned now."""
    kept = "the assignment stays as it was" if group.status.epoch else "nothing was assigned yet"
    holds = None if group.status.epoch else False
    assigned = Finding(ConditionType.ASSIGNED, holds, reason, kept)
    job = about_job(group, seen)
    if job and seen.unseen is not None:
        job = [Finding(ConditionType.JOB_RUNNING, None, reason, seen.unseen)]
    return [Finding(ConditionType.READY, False, reason, message), assigned, *job]


def _assigned(group: ConsumerGroup, seen: GroupSurroundings, plan: Plan) -> Finding:
    if (why := _why_off(group, seen)) is not None:
        return Finding(ConditionType.ASSIGNED, False, ConditionReason.NOT_RUNNING, why)
    if group.spec.job is None and (conflicted := _conflicted(seen)):
        return conflicted
    if plan.unowned:
        count = sum(map(len, plan.unowned.queues))
        text = f"{count} queues have no owner: {plan.unowned.reason}"
        return Finding(ConditionType.ASSIGNED, False, ConditionReason.UNOWNED, text)
    return _unreadable(group, seen) or Finding(
        ConditionType.ASSIGNED, True, ConditionReason.ALL_OWNED
    )


def _unreadable(group: ConsumerGroup, seen: GroupSurroundings) -> Finding | None:
    """Say which queues nobody may read, though messages may be written to them."""
    found = planning.unreadable(group, seen.topics)
    if not found:
        return None
    where = "; ".join(f"{topic} on {', '.join(brokers)}" for topic, brokers in found.items())
    text = f"the permission to read is missing, so what is written there is not read: {where}"
    return Finding(ConditionType.ASSIGNED, False, ConditionReason.NOT_READABLE, text)


def _conflicted(seen: GroupSurroundings) -> Finding | None:
    if seen.conflict is None:
        return None
    text = "nothing is assigned, for whoever followed would read what others read"
    return Finding(ConditionType.ASSIGNED, False, seen.conflict.reason, text)


def _balanced(group: ConsumerGroup, plan: Plan) -> Finding:
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
        text = f"imbalance {plan.imbalance:.2f}, as its strategy has it; Sticky would reach {best}"
        return Finding(ConditionType.BALANCED, False, ConditionReason.UNEVEN, text)
    return Finding(ConditionType.BALANCED, True, ConditionReason.EVEN)


def _paused(group: ConsumerGroup) -> list[Finding]:
    if is_paused(group):
        text = "only queues without an owner get one"
        return [Finding(ConditionType.PAUSED, True, ConditionReason.ASKED, text)]
    said = group.head.annotations.get(PAUSED, "false")
    if said != "false":
        text = f'the annotation {PAUSED} says "{said[:64]}": only "true" pauses'
        return [Finding(ConditionType.PAUSED, False, ConditionReason.NOT_UNDERSTOOD, text)]
    return []


def drained(
    group: ConsumerGroup, seen: GroupSurroundings, assignments: Sequence[Assigned]
) -> list[Finding]:
    """Say whether the pods that are to be emptied are, if there shall be such."""
    if not group.to_drain:
        return []
    busy = _owners(assignments) if group.spec.job is None else _fillers(seen)
    left = [f"{name} {busy[name]}" for name in sorted(group.to_drain & busy.keys())]
    if left:
        return [Finding(ConditionType.DRAINED, False, ConditionReason.DRAINING, "; ".join(left))]
    names = ", ".join(sorted(group.to_drain))
    text = f"nothing is read by {names}"
    return [Finding(ConditionType.DRAINED, True, ConditionReason.EMPTY, text)]


def _owners(assignments: Sequence[Assigned]) -> dict[str, str]:
    """Say of consumers how much they own, if anything."""
    counts = {each.consumer: sum(map(len, planning.owned(each))) for each in assignments}
    return {name: f"has {count} queues" for name, count in counts.items() if count}


def _fillers(seen: GroupSurroundings) -> dict[str, str]:
    """Say of executors which slots they fill; where no driver runs there are none."""
    report = seen.job.report if seen.job else None
    slots = report.slots if report else {}
    return {seat.pod or seat.executor: f"fills {slot}" for slot, seat in slots.items()}


def _why_off(group: ConsumerGroup, seen: GroupSurroundings) -> str | None:
    """Say why its job does not run, where that is as it was asked for."""
    if group.spec.job is None:
        return None
    if group.spec.suspend:
        return "spec.suspend is true"
    if not group.spec.job.executors:
        return "spec.job.executors is 0"
    if group.spec.job.schedule and seen.job and seen.job.state is JobState.ENDED:
        return seen.job.message
    return None


def about_job(group: ConsumerGroup, seen: GroupSurroundings) -> list[Finding]:
    """Say how its job is, if it has one."""
    if group.spec.job is None:
        return []
    job = seen.job or JobSeen(JobState.ENDED)
    found = [Finding(ConditionType.JOB_RUNNING, is_running(job), job.state.value, job.message)]
    if job.report is not None and is_running(job):
        pinned = job.report.is_pinned
        text = "" if pinned else "Spark is not seen yet to run tasks where they are sent"
        reason = ConditionReason.SEEN if pinned else ConditionReason.NOT_SEEN
        found.append(Finding(ConditionType.PINNED, pinned, reason, text))
    return found


def _ready(group: ConsumerGroup, seen: GroupSurroundings, assigned: Finding) -> Finding:
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
    """Whether only what nobody owns may get an owner."""
    return group.spec.rebalance.paused or group.head.annotations.get(PAUSED) == "true"


def is_running(job: JobSeen | None) -> bool:
    """Whether a driver runs and reports."""
    return job is not None and job.state is JobState.RUNNING
