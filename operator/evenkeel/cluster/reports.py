"""What a driver reports of itself, beside what is seen of its executors' pods. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from contract import report as contract_report
from contract.names import EXECUTOR_ID_LABEL
from evenkeel.cluster.pods import Pod
from evenkeel.control.jobs.states import DriverSeen, DriverState, Report, Seat


def with_report(
    driver: Pod,
    text: str | None,
    executors: Iterable[Pod],
    zone: Callable[[str], str | None],
) -> DriverSeen:
    """Add what the driver reports; an executor whose pod is gone fills no slot."""
    seen = driver.driver
    assert seen is not None
    if seen.state is DriverState.STARTING:
        return seen
    own = [pod for pod in executors if pod.owner == driver.uid]
    if seen.state is DriverState.RUNNING:
        seen = replace(seen, message=_waiting(own))
    if text is None:
        return seen
    try:
        found = contract_report.read(text)
    except msgspec.DecodeError as error:
        return replace(seen, message=f"the driver's report cannot be read: {error}")
    if found.driver != driver.uid:  # an earlier driver's
        return seen
    seen = replace(seen, skipped=found.skipped)
    if seen.ending is not None:
        said = found.error or seen.ending.message
        return replace(seen, ending=replace(seen.ending, message=said))
    by_id = {pod.labels.get(EXECUTOR_ID_LABEL): pod for pod in own}
    slots = {
        slot: Seat(seat.executor, pod.key.name, zone(pod.node) or "")
        for slot, seat in (found.slots or {}).items()
        if (pod := by_id.get(seat.executor)) is not None and not pod.is_going
    }
    # One that is told to end does so after its batch; only then does Spark ask for the next one.
    alive = {name for name, pod in by_id.items() if name and not pod.has_ended}
    coming = frozenset(alive - {seat.executor for seat in slots.values()})
    report = Report(found.adopted_epoch, slots, found.pinned, found.error, coming)
    return replace(seen, report=report)


def _waiting(executors: Iterable[Pod]) -> str:
    """Say of one executor why it does not run; the others will have the same reason."""
    waits = [f"executor {pod.key.name} {pod.waits}" for pod in executors if pod.waits]
    return min(waits, default="")
