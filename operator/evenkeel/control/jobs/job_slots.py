"""
A job's slots: from what its status says and its driver reports, to the engine's members. Pure.

The status is the only memory: who fills a slot, since when nobody does, and whether it is to go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from contract.kinds.groups import Assigned
from evenkeel import planning, times
from evenkeel.control.jobs.states import Report, Seat
from evenkeel.objects import ConsumerGroup
from lb_core import slots
from lb_core.model import Member
from lb_core.slots import Slot, Slots


@dataclass(frozen=True, slots=True)
class JobSlot:
    """A slot as the next status shows it, queues apart."""

    name: str
    seat: Seat
    """Who fills it, or filled it last."""
    empty_since: str
    is_draining: bool


@dataclass(frozen=True, slots=True)
class JobSlots:
    """All slots of a job, and how `plan` takes them."""

    by_name: Mapping[str, JobSlot]
    members: Sequence[Member]


def places(group: ConsumerGroup, wanted: int, report: Report | None, now: datetime) -> JobSlots:
    """
    See who fills which slot, and how many slots there shall be.

    Without a report nobody is taken to have gone: the driver is not there to tell.
    """
    known = {each.consumer: each for each in group.status.assignments if _is_slot(group, each)}
    found = {name: _place(each, report, now) for name, each in known.items()}
    before = Slots(group.group, tuple(_slot(each, report, now) for each in found.values()))
    warm = [slot.executor for slot in before.slots if slot.executor is not None]
    step = slots.step(before, wanted, warm, 0.0, leave_first=_least_first(known, found))
    grace = times.seconds(group.spec.rebalance.grace)
    zones = {each.seat.executor: each.seat.zone for each in found.values() if each.seat.zone}
    coming = report.coming if report else ()
    taken = slots.members(
        step.slots, zones, grace, coming=len(coming), entitled=_entitled(known, report)
    )
    after = {step.slots.name(slot): slot for slot in step.slots.slots}
    return JobSlots(
        {name: _after(name, slot, found.get(name), report, now) for name, slot in after.items()},
        [_unless_leaving(member) for member in taken],
    )


def _entitled(known: Mapping[str, Assigned], report: Report | None) -> set[str] | None:
    """
    Name the slots that may own queues though nobody is seen to have filled them.

    Those of the first plan own theirs. Without a report nobody is seen, also who was there.
    """
    owners = {name for name, each in known.items() if each.queues}
    if not owners:
        return None
    return owners if report is not None else owners | {n for n, it in known.items() if it.executor}


def _unless_leaving(member: Member) -> Member:
    """Wait for nobody to come back to a slot that is to go."""
    return replace(member, lost_for_seconds=None) if member.draining else member


def _is_slot(group: ConsumerGroup, assigned: Assigned) -> bool:
    name, _, number = assigned.consumer.rpartition("-")
    return name == group.group and number.isascii() and number.isdigit()


def _place(old: Assigned, report: Report | None, now: datetime) -> JobSlot:
    seat = Seat(old.executor, old.pod, old.zone)
    if report is None:
        return JobSlot(old.consumer, seat, "", old.draining)
    filled = report.slots.get(old.consumer)
    if filled is not None:
        return JobSlot(old.consumer, filled, "", old.draining)
    return JobSlot(old.consumer, seat, old.empty_since or times.shown(now), old.draining)


def _slot(place: JobSlot, report: Report | None, now: datetime) -> Slot:
    number = int(place.name.rpartition("-")[2])
    if place.empty_since:
        return Slot(
            number,
            empty_for_seconds=times.since(place.empty_since, now),
            is_draining=place.is_draining,
            was_filled=bool(place.seat.executor),
        )
    executor = place.seat.executor if report is not None else None
    return Slot(number, executor or None, is_draining=place.is_draining)


def _least_first(known: Mapping[str, Assigned], found: Mapping[str, JobSlot]) -> list[str]:
    """Order slots as they may go: empty ones, then those whose leaving moves the fewest queues."""

    def cost(name: str) -> tuple[bool, int, int]:
        load = sum(map(len, planning.owned(known[name])))
        return not found[name].empty_since, load, -int(name.rpartition("-")[2])

    return sorted(found, key=cost)


def _after(
    name: str, slot: Slot, before: JobSlot | None, report: Report | None, now: datetime
) -> JobSlot:
    if before is not None:
        return JobSlot(name, before.seat, before.empty_since, slot.is_draining)
    filled = report.slots.get(name) if report is not None else None
    if filled is not None:
        return JobSlot(name, filled, "", slot.is_draining)
    return JobSlot(name, Seat(""), times.shown(now) if report is not None else "", slot.is_draining)
