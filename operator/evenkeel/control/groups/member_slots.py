"""
Decides which member fills which slot. Pure.

A member that replaces another one has a new name, as the pods of a Deployment do. So queues are
owned by lasting slots `<group>-0`, `<group>-1` and so on, as in a job. Only the status stores which
member fills which slot. A slot whose member has ended keeps its queues for the grace. A new member
fills an empty slot. If no slot is empty, the member gets a new slot. A member that comes back under
its old name gets its old slot.

A rolling update starts a new pod before it ends an old one. The owner of the new pod, such as a new
ReplicaSet, differs from the owners of the pods that fill slots. Such a pod gets no new slot at
once: it first waits for the slot of an old pod, at most for the grace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from contract.kinds.groups import Assigned
from evenkeel import times
from evenkeel.control.jobs.job_slots import JobSlot
from evenkeel.control.jobs.states import SlotExecutor
from evenkeel.objects import ConsumerGroup
from lb_core import slots
from lb_core.model import Member
from lb_core.slots import Slot, Slots


@dataclass(frozen=True, slots=True)
class LiveMember:
    """A member that has a session."""

    name: str
    since: datetime
    """When its session began."""
    zone: str = ""
    owner: str = ""
    """The object that created it, such as a ReplicaSet; empty if unknown."""


@dataclass(frozen=True, slots=True)
class MemberSlots:
    """All slots of a group with members, and the members for the plan."""

    by_name: Mapping[str, JobSlot]
    members: Sequence[Member]
    look_again_seconds: float | None
    """Seconds until a waiting member gets a new slot; None if no member waits."""


def update_slots(group: ConsumerGroup, live: Sequence[LiveMember], now: datetime) -> MemberSlots:
    """Update which member fills which slot, and how many slots there are."""
    grace = times.parse_duration(group.spec.rebalance.grace)
    alive = {each.name: each for each in live}
    known = {name: each for each in group.status.assignments
             if group.read_slot(name := each.consumer) is not None}  # fmt: skip
    found = _find_slots(group, known, alive, now)
    if alive:  # otherwise no slot could take over the queues of a removed slot
        found = [each for each in found if each.executor or each.empty_for_seconds < grace]
    filled = [alive[each.executor] for each in found if each.executor]
    others = [each for name, each in alive.items() if each not in filled]
    patient = {each.name: grace - (now - each.since).total_seconds() for each in others
               if _is_successor(each, filled)}  # fmt: skip
    patient = {name: seconds for name, seconds in patient.items() if seconds > 0}
    added = max(0, len(others) - len(patient) - (len(found) - len(filled)))
    step = slots.step(Slots(group.group, tuple(found)), len(found) + added, alive, 0.0)
    zones = {each.name: each.zone for each in live if each.zone}
    after = {step.slots.get_id(each): each for each in step.slots.slots}
    return MemberSlots(
        {name: _build_slot(name, each, known, alive, now) for name, each in after.items()},
        [
            replace(each, draining=after[each.id].executor in group.to_drain)
            for each in slots.make_members(step.slots, zones, grace)
        ],
        min((patient[name] for name in step.waiting if name in patient), default=None),
    )


def _find_slots(
    group: ConsumerGroup,
    known: Mapping[str, Assigned],
    alive: Mapping[str, LiveMember],
    now: datetime,
) -> list[Slot]:
    """List the slots of the status, without slots whose member was drained and has ended."""
    found: list[Slot] = []
    taken: set[str] = set()
    for name, old in known.items():
        number = group.read_slot(name)
        assert number is not None
        if old.pod in alive and old.pod not in taken:
            taken.add(old.pod)
            found.append(Slot(number, old.pod))
        elif old.pod not in group.to_drain:
            seconds = times.measure_since(old.empty_since, now) if old.empty_since else 0.0
            found.append(Slot(number, empty_for_seconds=seconds, was_filled=True))
    return found


def _is_successor(newcomer: LiveMember, filled: Sequence[LiveMember]) -> bool:
    return bool(newcomer.owner) and any(each.owner not in ("", newcomer.owner) for each in filled)


def _build_slot(
    name: str,
    slot: Slot,
    known: Mapping[str, Assigned],
    alive: Mapping[str, LiveMember],
    now: datetime,
) -> JobSlot:
    if slot.executor:
        seat = SlotExecutor("", slot.executor, alive[slot.executor].zone)
        return JobSlot(name, seat, "", is_draining=False)
    old = known[name]
    empty_since = old.empty_since or times.format_time(now)
    return JobSlot(name, SlotExecutor("", old.pod, old.zone), empty_since, is_draining=False)
