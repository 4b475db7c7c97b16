"""
Decide which executor fills which slot of a job.

Executors come and go under new names, so a job's consumers are lasting slots `<group>-0`,
`<group>-1` and so on. `step` takes the slots and the current executors, and returns the next slots
and the changes. It is a pure function: the time since the last step is an argument, and the same
input gives the same result. The order of lists does not matter, except for `leave_first`.

A slot has these states::

    free ──executor──► filled ──executor lost──► free
    free or filled ──too many──► draining ──drained──► released
    draining ──wanted again──► free or filled, as before
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice, pairwise

from lb_core import errors
from lb_core.model import LARGEST_AMOUNT, Member, is_amount, order_text, shorten

MOST_SLOTS = 100_000
"""Far more slots than a job can have. A larger number is surely a typo."""
NO_ZONES: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Slot:
    """
    A lasting place for one executor.

    `empty_for_seconds` grows while no executor fills the slot, and is 0 otherwise. A draining slot
    gives away its queues and is then released.
    """

    number: int
    executor: str | None = None
    empty_for_seconds: float = 0.0
    is_draining: bool = False
    was_filled: bool = False
    """Whether an executor has ever filled it."""

    def __post_init__(self) -> None:
        """Refuse an invalid number, executor or time."""
        if self.executor is not None:
            object.__setattr__(self, "was_filled", True)
        if not _is_count(self.number):
            raise errors.BadRequestError(
                f"slot {shorten(self.number)}: its number must be 0 or higher"
            )
        if self.executor is not None:
            _refuse_bad_executor(self.executor)
        if not is_amount(self.empty_for_seconds) or (self.executor and self.empty_for_seconds):
            raise errors.BadRequestError(
                f"slot {self.number} with executor {shorten(self.executor)} cannot have been empty "
                f"for {shorten(self.empty_for_seconds)} seconds"
            )

    @property
    def is_open(self) -> bool:
        """Whether an executor may fill it."""
        return self.executor is None and not self.is_draining


@dataclass(frozen=True, slots=True)
class Slots:
    """A group's slots, always sorted by number."""

    group: str
    slots: tuple[Slot, ...] = ()

    def __post_init__(self) -> None:
        """Refuse two executors for one slot, and one executor for two slots."""
        if not isinstance(self.group, str) or not self.group:
            raise errors.BadRequestError("a group's name must be a non-empty string")
        ordered = sorted(self.slots, key=lambda slot: (slot.number, slot.executor or ""))
        for one, other in pairwise(ordered):
            if one.number == other.number:
                raise errors.DuplicateConsumerError(
                    f"slot {shorten(self.get_id(one))} is listed twice, filled by "
                    f"{shorten(one.executor)} and by {shorten(other.executor)}"
                )
        filled: dict[str, Slot] = {}
        for slot in ordered:
            if slot.executor and filled.setdefault(slot.executor, slot) is not slot:
                first, second = (self.get_id(each) for each in (filled[slot.executor], slot))
                raise errors.DuplicateConsumerError(
                    f"executor {shorten(slot.executor)} is in two slots, "
                    f"{shorten(first)} and {shorten(second)}"
                )
        object.__setattr__(self, "slots", tuple(ordered))

    def get_id(self, slot: Slot) -> str:
        """Return the slot's id, as used in statuses, metrics and the list of pinned consumers."""
        return f"{self.group}-{slot.number}"


@dataclass(frozen=True, slots=True)
class SlotStep:
    """The next slots, the executors without a slot, and what has changed."""

    slots: Slots
    waiting: tuple[str, ...]
    """Warm executors without a slot, in the order in which they fill slots that become open."""
    released: tuple[Slot, ...]
    """Slots that are removed. An executor that such a slot still has can be stopped."""
    events: tuple[str, ...]
    """The changes, one line for each."""


def step(
    slots: Slots,
    wanted: int,
    warm_executors: Iterable[str],
    elapsed_seconds: float,
    drained: Iterable[str] = (),
    leave_first: Sequence[str] = (),
) -> SlotStep:
    """
    Compute the next slots.

    1. A slot whose executor is no longer warm becomes empty. `elapsed_seconds` are added to the
      time of slots that were already empty.
    2. The job keeps `wanted` slots. If it has more, the surplus starts to drain: first the slots
      whose ids `leave_first` lists, in the order of that list, then empty slots, then the highest
      numbers. A draining slot keeps draining, even if a later `leave_first` does not list it. If
      the job has fewer, draining slots become normal again, in the reverse order, and then slots
      with the lowest unused numbers are added.
    3. A slot is released, and its number becomes unused, if it was draining before this step, is
      not wanted again, and `drained` contains its id. `drained` may contain other ids too, because
      the caller may have old information. The caller must leave the executors of released slots
      out of `warm_executors` from then on; otherwise, they fill the next open slots.
    4. Warm executors without a slot fill the open slots, the lowest first. Ids that are numbers, as
       Spark's are, are sorted by value and come before all others. No executor fills a draining
       slot.
    """
    seen = _read_warm(warm_executors)
    if not _is_count(wanted):
        raise errors.BadRequestError(
            f"group {shorten(slots.group)}: {shorten(wanted)} slots wanted, not 0 to {MOST_SLOTS}"
        )
    if not is_amount(elapsed_seconds):
        raise errors.BadRequestError(f"{shorten(elapsed_seconds)} seconds cannot have passed")
    work = _Work(slots, [], {slot.number: slot for slot in slots.slots})
    work.empty_lost(seen, elapsed_seconds)
    work.resize(wanted, leave_first)
    released = work.release(set(drained))
    gone = {slot.executor for slot in released}
    waiting = work.fill([name for name in seen if name not in gone])
    return SlotStep(
        Slots(slots.group, tuple(work.now.values())), waiting, released, tuple(work.events)
    )


def make_members(
    slots: Slots,
    zones: Mapping[str, str] = NO_ZONES,
    grace_seconds: float = 0.0,
    *,
    coming: int = 0,
    entitled: Container[str] | None = None,
) -> list[Member]:
    """
    Make the members for `plan` from the slots, in the order of their numbers.

    `zones` maps executors to zones; an empty slot has no zone. An empty slot counts as lost from
    the time when it became empty, so it keeps its queues for the policy's grace. `coming` is the
    number of executors that are starting. They will fill the lowest empty slots, so the grace of
    these slots does not run out.

    A slot that was never filled gets its first queues only when an executor fills it. The slots in
    `entitled` (None: all slots) are the exception: during the grace, they count as present even
    before they are filled. So a job's first plan is for all of its slots, and no queue moves while
    executors start one by one. While all slots are empty, no other slot could take over queues. So
    during that time, all slots that are in `entitled` or were filled before count as present, even
    after the grace.
    """
    empty = [slot.number for slot in slots.slots if slot.is_open]
    expected = set(empty[:coming])
    has_executor = any(slot.executor for slot in slots.slots)

    def find_lost_seconds(slot: Slot) -> float | None:
        is_new = not (slot.was_filled or entitled is None or slots.get_id(slot) in entitled)
        if slot.executor or not (is_new or has_executor):
            return None
        if is_new:
            return max(slot.empty_for_seconds, grace_seconds)  # so that its grace is over
        if slot.number in expected:
            return 0.0 if slot.was_filled else None
        is_young = not slot.was_filled and slot.empty_for_seconds < grace_seconds
        return None if is_young else slot.empty_for_seconds

    return [
        Member(
            slots.get_id(slot),
            zones.get(slot.executor) if slot.executor else None,
            draining=slot.is_draining,
            lost_for_seconds=find_lost_seconds(slot),
        )
        for slot in slots.slots
    ]


@dataclass(slots=True)
class _Work:
    """The state of a step that is being computed: the old slots, the new slots, and the changes."""

    before: Slots
    events: list[str]
    now: dict[int, Slot]

    def put(self, slot: Slot, event: str) -> None:
        self.now[slot.number] = slot
        self.events.append(f"{shorten(self.before.get_id(slot))}: {event}")

    def empty_lost(self, warm: Iterable[str], elapsed: float) -> None:
        alive = set(warm)
        for slot in self.before.slots:
            if slot.executor is None:
                seconds = min(slot.empty_for_seconds + elapsed, LARGEST_AMOUNT)
                self.now[slot.number] = replace(slot, empty_for_seconds=seconds)
            elif slot.executor not in alive:
                event = f"executor {shorten(slot.executor)} is lost, the slot is empty"
                self.put(replace(slot, executor=None), event)

    def resize(self, wanted: int, leave_first: Sequence[str]) -> None:
        ranks = {name: rank for rank, name in reversed(list(enumerate(leave_first)))}
        by_leaving = sorted(self.now.values(), key=lambda slot: self._rank_leaving(slot, ranks))
        staying = [slot for slot in by_leaving if not slot.is_draining]
        draining = [slot for slot in by_leaving if slot.is_draining]
        for slot in staying[: max(0, len(staying) - wanted)]:
            self.put(replace(slot, is_draining=True), "surplus, starts to drain")
        missing = max(0, wanted - len(staying))
        for slot in draining[::-1][:missing]:
            self.put(replace(slot, is_draining=False), "wanted again, stays")
        unused = (number for number in count() if number not in self.now)
        for number in list(islice(unused, max(0, missing - len(draining)))):
            self.put(Slot(number), "added")

    def _rank_leaving(self, slot: Slot, ranks: Mapping[str, int]) -> tuple[int, bool, int]:
        rank = ranks.get(self.before.get_id(slot), MOST_SLOTS)
        return rank, slot.executor is not None, -slot.number

    def release(self, drained: set[str]) -> tuple[Slot, ...]:
        released = []
        for old in self.before.slots:
            slot = self.now[old.number]
            if old.is_draining and slot.is_draining and self.before.get_id(slot) in drained:
                end = (
                    "" if slot.executor is None else f", executor {shorten(slot.executor)} may end"
                )
                self.put(slot, f"drained and released{end}")
                released.append(self.now.pop(slot.number))
        return tuple(released)

    def fill(self, warm: Sequence[str]) -> tuple[str, ...]:
        placed = {slot.executor for slot in self.now.values()}
        waiting = [name for name in warm if name not in placed]
        open_slots = [slot for _, slot in sorted(self.now.items()) if slot.is_open]
        for slot, name in zip(open_slots, waiting, strict=False):
            self.put(Slot(slot.number, name), f"executor {shorten(name)} takes it")
        return tuple(waiting[len(open_slots) :])


def _read_warm(executors: Iterable[str]) -> list[str]:
    """Sort the executors, and refuse one that is listed twice."""
    names = list(executors)
    for name in names:
        _refuse_bad_executor(name)
    names.sort(key=_order_executors)
    for one, other in pairwise(names):
        if one == other:
            raise errors.DuplicateConsumerError(f"executor {shorten(one)} is listed as warm twice")
    return names


def _order_executors(name: str) -> tuple[bool, int, str, bytes]:
    # int() is not used, because it refuses numbers with thousands of digits.
    digits = name.lstrip("0") if name.isascii() and name.isdigit() else None
    return digits is None, len(digits or ""), digits or "", order_text(name)


def _refuse_bad_executor(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise errors.BadRequestError("an executor's id must be a non-empty string")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_SLOTS
