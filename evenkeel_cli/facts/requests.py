"""What groups are asked for by hand: by which annotation, and how it is seen to be done. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from contract import names
from contract.kinds.parts import Condition
from evenkeel.control import conditions
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup

Seen = Callable[[ConsumerGroup], str | None]
"""What there is to say once it is done, as a group's status shows; None before."""


@dataclass(frozen=True, slots=True)
class Request:
    """One annotation to be set, and what people should hear about it."""

    annotation: str
    value: str | None
    """None: it is taken away."""
    did: str
    follows: str
    seen: Seen
    is_new: bool = True
    """Whether anything has to be written."""


def rebalance(group: ConsumerGroup, moment: str) -> Request:
    """Plan once, at once."""

    def seen(now: ConsumerGroup) -> str | None:
        if now.status.rebalanced_for != moment:
            return None
        last = now.status.last_rebalance
        if last is None or last == group.status.last_rebalance:
            return f"{group} was planned anew, and nothing had to move"
        moved = f"{last.moved} queues moved: {last.reason}"
        return f"{group} was planned anew, epoch {now.status.epoch}; {moved}"

    return Request(
        names.REBALANCE, moment, f"{group} is asked to be planned anew, once",
        "the operator plans it at once, without maxMoves and minGain", seen,
    )  # fmt: skip


def pause(group: ConsumerGroup, moment: str) -> Request:
    """Let queues stay where they are."""
    del moment
    is_new = group.head.annotations.get(names.PAUSED) != "true"
    return Request(
        names.PAUSED, "true", f"{group} is paused" if is_new else f"{group} was paused already",
        "queues stay where they are, and only what nobody owns gets an owner; resume ends it",
        lambda now: "the operator has seen the pause" if _holds(now, "Paused") else None, is_new,
    )  # fmt: skip


def resume(group: ConsumerGroup, moment: str) -> Request:
    """End a pause."""
    del moment
    if group.spec.rebalance.paused:
        raise EvenkeelError(
            f"{group} is paused by its own spec: set spec.rebalance.paused to false"
        )
    is_new = names.PAUSED in group.head.annotations
    return Request(
        names.PAUSED, None, f"{group} is paused no more" if is_new else f"{group} was not paused",
        "the operator plans it at once" if is_new else "nothing changes",
        lambda now: None if _holds(now, "Paused") else "the operator has seen that it goes on",
        is_new,
    )  # fmt: skip


def restart(group: ConsumerGroup, moment: str) -> Request:
    """Start a job anew."""
    _needs_job(group, "restart")
    before = _run(group)

    def seen(now: ConsumerGroup) -> str | None:
        if why := _why_off(now):
            return f"nothing runs now, for {why}: it starts anew when it does"
        return "the job has started anew" if _run(now) not in (None, before) else None

    return Request(
        names.RESTART, moment, f"{group} is asked to start its job anew",
        "the driver ends after the batch that runs, and a new one starts" if before else
        "a new driver starts", seen,
    )  # fmt: skip


def skip(group: ConsumerGroup, moment: str) -> Request:
    """Pass over what is lost."""
    _needs_job(group, "skip")
    if _holds(group, "Ready"):
        raise EvenkeelError(f"{group} is ready: there is nothing to pass over")

    def seen(now: ConsumerGroup) -> str | None:
        last = now.status.last_skip
        if last is None or last.value != moment:
            return None
        return f"the job has passed over {last.messages} messages: {last.lost}"

    return Request(
        names.SKIP, moment, f"{group} is asked to pass over messages that are gone, once",
        "its driver starts again, passes over them, and notes them in status.lastSkip", seen,
    )  # fmt: skip


def why_not(group: ConsumerGroup) -> str:
    """Say what a group's status says of why it is not as it was asked for."""
    ready = conditions.find(group.status.conditions, "Ready")
    if ready is None:
        return "it has no status yet: see whether the operator runs"
    if ready.holds:
        return "Ready is True, as if nobody had seen that: see whether the operator runs"
    said = f" ({ready.message})" if ready.message else ""
    return f"Ready is {ready.status.value}, {ready.reason}{said}"


KNOWN: dict[str, Callable[[ConsumerGroup, str], Request]] = {
    "rebalance": rebalance,
    "pause": pause,
    "resume": resume,
    "restart": restart,
    "skip": skip,
}


def _needs_job(group: ConsumerGroup, what: str) -> None:
    if group.spec.job is None:
        raise EvenkeelError(
            f"{group} has no job, and {what} is for jobs alone: Evenkeel does not run its consumers"
        )


def _condition(group: ConsumerGroup, kind: str) -> Condition | None:
    return conditions.find(group.status.conditions, kind)


def _holds(group: ConsumerGroup, kind: str) -> bool:
    found = _condition(group, kind)
    return found is not None and found.holds


def _run(group: ConsumerGroup) -> tuple[str, str] | None:
    """Tell one run of a job from the next: since when it runs, and when the last one ended."""
    running = _condition(group, "JobRunning")
    if running is None or not running.holds:
        return None
    return running.last_transition_time, group.status.job.ended_at if group.status.job else ""


def _why_off(group: ConsumerGroup) -> str:
    assigned = _condition(group, "Assigned")
    is_off = assigned is not None and assigned.reason == "NotRunning"
    return assigned.message if assigned is not None and is_off else ""
