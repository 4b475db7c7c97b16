"""Users' requests to a group: which annotation to set, and when the request is done. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from contract import names
from contract.conditions import ConditionReason, ConditionType
from contract.kinds.parts import Condition
from evenkeel import planning, rebalances
from evenkeel.control import conditions
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup

Seen = Callable[[ConsumerGroup], str | None]
"""Returns the text to print if the group's status shows that the request is done, or None."""


@dataclass(frozen=True, slots=True)
class AnnotationRequest:
    """An annotation to set, and the texts to print about it."""

    annotation: str
    value: str | None
    """None removes the annotation."""
    did: str
    follows: str
    seen: Seen
    is_new: bool = True
    """Whether the request changes the annotation."""


def rebalance(group: ConsumerGroup, moment: str) -> AnnotationRequest:
    """Plan the group once, immediately."""

    def find_effect(now: ConsumerGroup) -> str | None:
        if now.status.rebalanced_for != moment:
            return None
        last = now.status.last_rebalance
        if last is None or last == group.status.last_rebalance:
            return f"{group} was planned, and no queue moved"
        moved = f"{last.moved} queues moved: {rebalances.describe(last)}"
        return f"{group} was planned, epoch {now.status.epoch}; {moved}"

    return AnnotationRequest(
        names.REBALANCE, moment, f"a new plan of {group} is requested",
        "the operator plans it immediately, without maxMoves and minGain", find_effect,
    )  # fmt: skip


def pause(group: ConsumerGroup, moment: str) -> AnnotationRequest:
    """Pause the rebalancing."""
    del moment
    is_new = group.head.annotations.get(names.PAUSED) != "true"
    return AnnotationRequest(
        names.PAUSED, "true", f"{group} is paused" if is_new else f"{group} was already paused",
        "queues keep their owners, and only queues without an owner get one; resume ends the pause",
        lambda now: "the operator has seen the pause" if _is_paused(now) else None, is_new,
    )  # fmt: skip


def resume(group: ConsumerGroup, moment: str) -> AnnotationRequest:
    """End a pause."""
    del moment
    if group.spec.rebalance.paused:
        raise EvenkeelError(
            f"{group} is paused by its own spec: set spec.rebalance.paused to false"
        )
    is_new = names.PAUSED in group.head.annotations
    return AnnotationRequest(
        names.PAUSED, None, f"{group} is resumed" if is_new else f"{group} was not paused",
        "the operator plans it immediately" if is_new else "nothing changes",
        lambda now: None if _is_paused(now) else "the operator has seen the end of the pause",
        is_new,
    )  # fmt: skip


def restart(group: ConsumerGroup, moment: str) -> AnnotationRequest:
    """Restart the job."""
    _require_job(group, "restart")
    before = _identify_run(group)

    def find_effect(now: ConsumerGroup) -> str | None:
        if why := _find_why_off(now):
            return f"the job is not running now ({why}); its next run is a new one"
        return "the job has restarted" if _identify_run(now) not in (None, before) else None

    return AnnotationRequest(
        names.RESTART, moment, f"a restart of the job of {group} is requested",
        "the driver ends after its current batch, and a new one starts" if before else
        "a new driver starts", find_effect,
    )  # fmt: skip


def skip(group: ConsumerGroup, moment: str) -> AnnotationRequest:
    """Skip lost messages."""
    _require_job(group, "skip")
    if planning.is_by_message(group):
        raise EvenkeelError(
            f"{group} has balance Messages: its job keeps no offsets, so no loss ever stops it"
        )
    if _is_true(group, ConditionType.READY):
        raise EvenkeelError(f"{group} is Ready: there is nothing to skip")

    def find_effect(now: ConsumerGroup) -> str | None:
        last = now.status.last_skip
        if last is None or last.value != moment:
            return None
        return f"the job has skipped {last.messages} messages: {last.lost}"

    return AnnotationRequest(
        names.SKIP, moment, f"{group} is asked to skip lost messages, once",
        "its driver restarts, skips them, and records them in status.lastSkip", find_effect,
    )  # fmt: skip


def explain_delay(group: ConsumerGroup) -> str:
    """Explain from the group's status why the request is not done yet."""
    ready = conditions.find(group.status.conditions, ConditionType.READY)
    if ready is None:
        return "the group has no status yet: check that the operator runs"
    if ready.holds:
        return "Ready is True, as it was before the request: check that the operator runs"
    said = f" ({ready.message})" if ready.message else ""
    return f"Ready is {ready.status.value}, {ready.reason}{said}"


KNOWN: dict[str, Callable[[ConsumerGroup, str], AnnotationRequest]] = {
    "rebalance": rebalance,
    "pause": pause,
    "resume": resume,
    "restart": restart,
    "skip": skip,
}


def _require_job(group: ConsumerGroup, what: str) -> None:
    if group.spec.job is None:
        raise EvenkeelError(
            f"{group} has no job, and {what} needs one: Evenkeel does not run its consumers"
        )


def _find_condition(group: ConsumerGroup, kind: ConditionType) -> Condition | None:
    return conditions.find(group.status.conditions, kind)


def _is_true(group: ConsumerGroup, kind: ConditionType) -> bool:
    found = _find_condition(group, kind)
    return found is not None and found.holds


def _is_paused(group: ConsumerGroup) -> bool:
    return _is_true(group, ConditionType.PAUSED)


def _identify_run(group: ConsumerGroup) -> tuple[str, str] | None:
    """Identify a run of the job by its start and by the end of the previous run."""
    running = _find_condition(group, ConditionType.JOB_RUNNING)
    if running is None or not running.holds:
        return None
    return running.last_transition_time, group.status.job.ended_at if group.status.job else ""


def _find_why_off(group: ConsumerGroup) -> str:
    assigned = _find_condition(group, ConditionType.ASSIGNED)
    is_off = assigned is not None and assigned.reason == ConditionReason.NOT_RUNNING
    return assigned.message if assigned is not None and is_off else ""
