"""Combines a driver's report with the pods of its executors. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from contract import report as contract_report
from contract.names import EXECUTOR_ID_LABEL
from evenkeel.cluster.watch.pods import Pod
from evenkeel.control.jobs.states import DriverSeen, DriverState, Report, SlotExecutor


def add_report(
    driver: Pod,
    text: str | None,
    executors: Iterable[Pod],
    zone: Callable[[str], str | None],
) -> DriverSeen:
    """Add the driver's report. An executor whose pod has ended does not fill its slot any more."""
    seen = driver.driver
    assert seen is not None
    if seen.state is DriverState.STARTING:
        return seen
    own = [pod for pod in executors if pod.owner == driver.uid]
    if seen.state is DriverState.RUNNING:
        seen = replace(seen, message=_explain_waiting(own))
    if text is None:
        return seen
    try:
        found = contract_report.read(text)
    except msgspec.DecodeError as error:
        return replace(seen, message=f"the driver's report cannot be read: {error}")
    if found.driver != driver.uid:  # the report of an earlier driver
        return seen
    seen = replace(seen, skipped=found.skipped)
    if seen.ending is not None:
        said = found.error or seen.ending.message
        return replace(seen, ending=replace(seen.ending, message=said))
    by_id = {pod.labels.get(EXECUTOR_ID_LABEL): pod for pod in own}
    slots = {
        slot: SlotExecutor(seat.executor, pod.key.name, zone(pod.node) or "")
        for slot, seat in (found.slots or {}).items()
        if (pod := by_id.get(seat.executor)) is not None and not pod.is_going
    }
    # A stopping executor ends after its batch, and only then does Spark request a new one.
    alive = {name for name, pod in by_id.items() if name and not pod.has_ended}
    coming = frozenset(alive - {seat.executor for seat in slots.values()})
    report = Report(found.adopted_epoch, slots, found.pinned, found.error, coming, found.engine)
    return replace(seen, report=report)


def _explain_waiting(executors: Iterable[Pod]) -> str:
    """Explain why one executor does not run. The others usually have the same reason."""
    waits = [f"executor {pod.key.name} {pod.waits}" for pod in executors if pod.waits]
    return min(waits, default="")
