"""
Computes a job's slots from its status and its driver's report. Pure.

Only the status stores which executor fills a slot, since when a slot is empty, and whether it is
draining.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from contract.kinds.groups import Assigned
from evenkeel import planning, times
from evenkeel.control.jobs.states import Report, SlotExecutor
from evenkeel.objects import ConsumerGroup
from lb_core import slots
from lb_core.model import Member
from lb_core.slots import Slot, Slots


@dataclass(frozen=True, slots=True)
class JobSlot:
    """A slot of the next status, without its queues."""

    name: str
    seat: SlotExecutor
    """The executor that fills the slot, or filled it last."""
    empty_since: str
    is_draining: bool


@dataclass(frozen=True, slots=True)
class JobSlots:
    """All slots of a job, and the members for the plan."""

    by_name: Mapping[str, JobSlot]
    members: Sequence[Member]


def update_slots(
    group: ConsumerGroup, wanted: int, report: Report | None, now: datetime
) -> JobSlots:
    """
    Update which executor fills which slot, and how many slots there are.

    Without a report no executor counts as lost, because only the driver can report a loss.
    """
    known = {each.consumer: each for each in group.status.assignments
             if group.read_slot(each.consumer) is not None}  # fmt: skip
    found = {name: _read_slot(each, report, now) for name, each in known.items()}
    before = Slots(
        group.group, tuple(_to_engine_slot(each, report, now) for each in found.values())
    )
    warm = [slot.executor for slot in before.slots if slot.executor is not None]
    step = slots.step(before, wanted, warm, 0.0, leave_first=_sort_by_cost(known, found))
    grace = times.parse_duration(group.spec.rebalance.grace)
    zones = {each.seat.executor: each.seat.zone for each in found.values() if each.seat.zone}
    coming = report.coming if report else ()
    taken = slots.make_members(
        step.slots, zones, grace, coming=len(coming), entitled=_find_entitled(known, report)
    )
    after = {step.slots.get_id(slot): slot for slot in step.slots.slots}
    return JobSlots(
        {
            name: _build_slot(name, slot, found.get(name), report, now)
            for name, slot in after.items()
        },
        [_drop_grace(member) for member in taken],
    )


def _find_entitled(known: Mapping[str, Assigned], report: Report | None) -> set[str] | None:
    """
    Return the slots that may own queues although no executor is known to have filled them.

    None means all slots: in the first plan, slots own queues before they are filled. Without a
    report, slots keep their queues if an executor has filled them before.
    """
    owners = {name for name, each in known.items() if each.queues}
    if not owners:
        return None
    return owners if report is not None else owners | {n for n, it in known.items() if it.executor}


def _drop_grace(member: Member) -> Member:
    """End the grace of a draining slot, because no executor will fill it again."""
    return replace(member, lost_for_seconds=None) if member.draining else member


def _read_slot(old: Assigned, report: Report | None, now: datetime) -> JobSlot:
    seat = SlotExecutor(old.executor, old.pod, old.zone)
    if report is None:
        return JobSlot(old.consumer, seat, "", old.draining)
    filled = report.slots.get(old.consumer)
    if filled is not None:
        return JobSlot(old.consumer, filled, "", old.draining)
    return JobSlot(old.consumer, seat, old.empty_since or times.format_time(now), old.draining)


def _to_engine_slot(place: JobSlot, report: Report | None, now: datetime) -> Slot:
    number = int(place.name.rpartition("-")[2])
    if place.empty_since:
        return Slot(
            number,
            empty_for_seconds=times.measure_since(place.empty_since, now),
            is_draining=place.is_draining,
            was_filled=bool(place.seat.executor),
        )
    executor = place.seat.executor if report is not None else None
    return Slot(number, executor or None, is_draining=place.is_draining)


def _sort_by_cost(known: Mapping[str, Assigned], found: Mapping[str, JobSlot]) -> list[str]:
    """Order slots for removal: empty slots first, then those with the fewest queues."""

    def cost(name: str) -> tuple[bool, int, int]:
        load = sum(map(len, planning.read_owned(known[name])))
        return not found[name].empty_since, load, -int(name.rpartition("-")[2])

    return sorted(found, key=cost)


def _build_slot(
    name: str, slot: Slot, before: JobSlot | None, report: Report | None, now: datetime
) -> JobSlot:
    if before is not None:
        return JobSlot(name, before.seat, before.empty_since, slot.is_draining)
    filled = report.slots.get(name) if report is not None else None
    if filled is not None:
        return JobSlot(name, filled, "", slot.is_draining)
    return JobSlot(
        name,
        SlotExecutor(""),
        times.format_time(now) if report is not None else "",
        slot.is_draining,
    )
