"""What a driver reports of itself, beside what is seen of its executors' pods. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from evenkeel.cluster.pods import Pod
from evenkeel.control.seen import DriverSeen, DriverState, Report, Seat, Skipped

ENTRY = "report.json"
EXECUTOR_ID = "spark-exec-id"
"""The label that Spark gives an executor's pod."""


class _Seat(msgspec.Struct, frozen=True):
    executor: str
    host: str = ""


class _Report(msgspec.Struct, frozen=True, rename="camel"):
    driver: str = ""
    adopted_epoch: int = 0
    slots: dict[str, _Seat] = {}
    pinned: bool = False
    error: str | None = None
    skipped: Skipped | None = None


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
        found = msgspec.json.decode(text, type=_Report)
    except msgspec.DecodeError as error:
        return replace(seen, message=f"the driver's report cannot be read: {error}")
    if found.driver != driver.uid:  # an earlier driver's
        return seen
    seen = replace(seen, skipped=found.skipped)
    if seen.ending is not None:
        said = found.error or seen.ending.message
        return replace(seen, ending=replace(seen.ending, message=said))
    by_id = {pod.labels.get(EXECUTOR_ID): pod for pod in own}
    slots = {
        slot: Seat(seat.executor, pod.key.name, zone(pod.node) or "")
        for slot, seat in found.slots.items()
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
