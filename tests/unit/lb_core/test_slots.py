"""Which executor fills which slot of a job, step by step."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from lb_core import errors, plan, slots
from lb_core.model import Member, QueueRange
from lb_core.policy import Policy
from lb_core.slots import Slot, Slots, SlotStep


def job(*executors: str | None, draining: Iterable[int] = (), empty_for: float = 0.0) -> Slots:
    """Make the slots 0, 1, ... of group "b", filled by these executors; None is an empty slot."""
    drained = set(draining)
    return Slots(
        "b",
        tuple(
            Slot(number, name, 0.0 if name else empty_for, number in drained)
            for number, name in enumerate(executors)
        ),
    )


def step(
    before: Slots,
    warm: Iterable[str] = (),
    wanted: int | None = None,
    elapsed: float = 1.0,
    drained: Iterable[str] = (),
    leave_first: Sequence[str] = (),
) -> SlotStep:
    """Take one step; by default, as many slots are wanted as exist."""
    wanted = len(before.slots) if wanted is None else wanted
    return slots.step(before, wanted, warm, elapsed, drained, leave_first)


def filled(found: Slots) -> dict[int, str | None]:
    return {slot.number: slot.executor for slot in found.slots}


def draining(found: Slots) -> list[int]:
    return [slot.number for slot in found.slots if slot.is_draining]


# --- free and filled


def test_free_to_filled_when_an_executor_is_warm() -> None:
    found = step(job(None), ["7"])
    assert found.slots == job("7")
    assert found.events == ("b-0: executor 7 takes it",)


def test_a_warm_executor_takes_the_lowest_free_slot() -> None:
    assert filled(step(job("1", None, None), ["1", "2"]).slots) == {0: "1", 1: "2", 2: None}


def test_an_executor_keeps_its_slot_for_life() -> None:
    """Slot 0 becomes free, and executor 2 could move there, but it does not."""
    assert filled(step(job("1", "2"), ["2"]).slots) == {0: None, 1: "2"}


def test_filled_to_free_when_its_executor_is_not_warm_any_more() -> None:
    found = step(job("1", "2"), ["1"], elapsed=5.0)
    assert found.slots.slots[1] == Slot(1, None, 0.0, was_filled=True)
    assert found.events == ("b-1: executor 2 is lost, the slot is empty",)


def test_a_replacement_takes_the_slot_of_the_one_that_was_lost() -> None:
    assert filled(step(job("1", "2", "3"), ["1", "3", "4"]).slots) == {0: "1", 1: "4", 2: "3"}


def test_an_empty_slot_counts_the_seconds() -> None:
    found = step(job("1", None, empty_for=30.0), ["1"], elapsed=2.5)
    assert found.slots.slots[1].empty_for_seconds == 32.5
    assert found.events == ()


def test_a_slot_that_is_filled_again_counts_from_zero_when_it_is_lost_again() -> None:
    again = step(job(None, empty_for=30.0), ["1"]).slots
    assert again.slots[0].empty_for_seconds == 0
    assert step(again, []).slots.slots[0].empty_for_seconds == 0


def test_more_executors_than_slots_wait_and_are_listed() -> None:
    found = step(job("1"), ["1", "2", "3"])
    assert (found.waiting, filled(found.slots)) == (("2", "3"), {0: "1"})


def test_a_waiting_executor_takes_the_slot_that_gets_free() -> None:
    found = step(job("1"), ["2"])
    assert (found.waiting, filled(found.slots)) == ((), {0: "2"})


def test_executors_take_slots_in_the_order_of_their_numbers() -> None:
    names = ["pod-a", "10", "9", "009", "12", "3" * 5000]
    found = step(job(None, None, None, None, None), names)
    assert list(filled(found.slots).values()) == ["009", "9", "10", "12", "3" * 5000]
    assert found.waiting == ("pod-a",)


def test_a_number_that_is_new_is_taken_before_a_higher_one_that_was_there() -> None:
    before = Slots("b", (Slot(0, "1"), Slot(2)))
    assert filled(step(before, ["1", "5"], wanted=3).slots) == {0: "1", 1: "5", 2: None}


# --- more and fewer


def test_growing_adds_the_lowest_unused_numbers() -> None:
    before = Slots("b", (Slot(0, "1"), Slot(2, "3")))
    found = step(before, ["1", "3"], wanted=4)
    assert filled(found.slots) == {0: "1", 1: None, 2: "3", 3: None}
    assert found.events == ("b-1: added", "b-3: added")


def test_a_new_slot_is_taken_in_the_step_that_adds_it() -> None:
    assert filled(step(Slots("b"), ["1", "2"], wanted=2).slots) == {0: "1", 1: "2"}


def test_filled_to_draining_when_there_are_too_many() -> None:
    found = step(job("1", "2", "3"), ["1", "2", "3"], wanted=2)
    assert found.slots == job("1", "2", "3", draining=[2])
    assert found.events == ("b-2: surplus, starts to drain",)


def test_free_to_draining_before_any_filled_one() -> None:
    found = step(job(None, "2", None, "4"), ["2", "4"], wanted=1)
    assert draining(found.slots) == [0, 2, 3]


def test_the_victims_follow_the_callers_order() -> None:
    found = step(job("1", "2", "3", "4"), "1234", wanted=2, leave_first=["b-1", "b-0", "b-3"])
    assert draining(found.slots) == [0, 1]


def test_a_slot_that_is_named_twice_goes_at_its_first_place() -> None:
    found = step(job("1", "2", "3"), "123", wanted=2, leave_first=["b-0", "b-1", "b-0"])
    assert draining(found.slots) == [0]


def test_after_the_callers_order_the_default_one_goes_on() -> None:
    found = step(job("1", None, "3", "4"), "134", wanted=1, leave_first=["b-0", "b-99", "b-0"])
    assert draining(found.slots) == [0, 1, 3]


def test_a_draining_slot_goes_on_draining_when_the_callers_order_changes() -> None:
    before = job("1", "2", "3", draining=[2])
    assert draining(step(before, "123", wanted=2, leave_first=["b-0"]).slots) == [2]


def test_a_draining_slot_is_not_filled_again() -> None:
    found = step(job("1", None, draining=[1]), ["1", "2"], wanted=1)
    assert (filled(found.slots), found.waiting) == ({0: "1", 1: None}, ("2",))


def test_draining_to_released_when_the_caller_says_it_is_drained() -> None:
    found = step(job("1", "2", draining=[1]), "12", wanted=1, drained=["b-1"])
    assert found.slots == job("1")
    assert found.released == (Slot(1, "2", is_draining=True),)
    assert found.events == ("b-1: drained and released, executor 2 may end",)


def test_a_draining_slot_stays_until_the_caller_says_it_is_drained() -> None:
    before = job("1", "2", draining=[1])
    assert step(before, "12", wanted=1).slots == before


def test_an_empty_draining_slot_is_released_without_an_executor() -> None:
    found = step(job("1", None, draining=[1]), "1", wanted=1, drained=["b-1"])
    assert found.events == ("b-1: drained and released",)


def test_draining_to_filled_when_it_is_wanted_again() -> None:
    found = step(job("1", "2", draining=[1]), "12", wanted=2, drained=["b-1"])
    assert found.slots == job("1", "2")
    assert (found.events, found.released) == (("b-1: wanted again, stays",), ())


def test_draining_to_free_and_filled_when_an_empty_one_is_wanted_again() -> None:
    found = step(job("1", None, draining=[1]), "12", wanted=2)
    assert filled(found.slots) == {0: "1", 1: "2"}
    assert draining(found.slots) == []


def test_the_slot_that_would_leave_last_is_wanted_again_first() -> None:
    before = job("1", None, "3", "4", draining=[1, 2, 3])
    assert draining(step(before, "134", wanted=2).slots) == [1, 3]
    assert draining(step(before, "134", wanted=2, leave_first=["b-2"]).slots) == [1, 2]


def test_new_slots_are_added_only_when_no_draining_one_is_left() -> None:
    found = step(job("1", "2", draining=[1]), "12", wanted=3)
    assert found.events == ("b-1: wanted again, stays", "b-2: added")


def test_a_slot_that_only_now_starts_to_drain_is_not_drained_yet() -> None:
    """The caller has seen an earlier slot of this name drained."""
    found = step(job("1", "2"), "12", wanted=1, drained=["b-1"])
    assert (draining(found.slots), found.released) == ([1], ())


def test_a_slot_that_does_not_drain_is_never_released() -> None:
    before = job("1", "2")
    assert step(before, "12", drained=["b-0", "b-1", "b-77", "x"]).slots == before


def test_the_executor_of_a_released_slot_takes_no_other_in_that_step() -> None:
    before = job(None, "2", draining=[1])
    found = step(before, "2", wanted=1, drained=["b-1"])
    assert (filled(found.slots), found.waiting) == ({0: None}, ())


def test_a_released_number_is_used_again() -> None:
    after = step(job("1", "2", draining=[1]), "12", wanted=1, drained=["b-1"]).slots
    assert step(after, "1", wanted=2).events == ("b-1: added",)


def test_a_number_is_not_used_again_while_its_slot_drains() -> None:
    before = job("1", "2", "3", draining=[0])
    assert step(before, "123", wanted=2).slots == before


def test_a_draining_slot_may_lose_its_executor() -> None:
    found = step(job("1", "2", draining=[1]), "1", wanted=1)
    assert found.slots.slots[1] == Slot(1, None, is_draining=True, was_filled=True)


def test_no_slot_wanted_drains_all() -> None:
    assert draining(step(job("1", "2"), "12", wanted=0).slots) == [0, 1]


# --- refusals


def test_an_executor_in_two_slots_is_refused_by_name() -> None:
    with pytest.raises(errors.DuplicateConsumerError, match=r"executor 7 is in two .* b-0 and b-2"):
        job("7", "8", "7")


def test_two_executors_for_one_slot_are_refused_by_name() -> None:
    with pytest.raises(errors.DuplicateConsumerError, match=r"slot b-3 is .* by 7 and by 8"):
        Slots("b", (Slot(3, "8"), Slot(3, "7")))


def test_an_executor_that_is_warm_twice_is_refused_by_name() -> None:
    with pytest.raises(errors.DuplicateConsumerError, match="executor 7 is listed as warm twice"):
        step(job("7"), ["7", "8", "7"])


@pytest.mark.parametrize("wanted", [-1, 100_001, 1.0, True, None, "3"])
def test_a_number_of_slots_that_cannot_be_is_refused(wanted: int) -> None:
    with pytest.raises(errors.BadRequestError, match="slots wanted"):
        slots.step(job("1"), wanted, ["1"], 0)


@pytest.mark.parametrize("elapsed", [-1.0, float("nan"), float("inf"), "1"])
def test_a_time_that_cannot_have_passed_is_refused(elapsed: float) -> None:
    with pytest.raises(errors.BadRequestError, match="cannot have passed"):
        step(job("1"), ["1"], elapsed=elapsed)


@pytest.mark.parametrize("number", [-1, 100_001, True, "0"])
def test_a_slot_needs_a_number(number: int) -> None:
    with pytest.raises(errors.BadRequestError, match="number"):
        Slot(number)


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_a_slot_cannot_have_been_empty_for_such_a_time(seconds: float) -> None:
    with pytest.raises(errors.BadRequestError, match=r"slot 4 .* cannot have been empty for"):
        Slot(4, None, seconds)


def test_a_filled_slot_is_not_empty() -> None:
    with pytest.raises(
        errors.BadRequestError, match=r"executor 7 cannot have been empty for 3\.0 seconds"
    ):
        Slot(4, "7", 3.0)


def test_groups_and_executors_need_names() -> None:
    for make in (lambda: Slots(""), lambda: Slot(0, ""), lambda: step(job("1"), ["1", ""])):
        with pytest.raises(errors.BadRequestError, match="must be a non-empty string"):
            make()


def test_a_hostile_name_of_a_megabyte_makes_a_short_message() -> None:
    with pytest.raises(errors.DuplicateConsumerError) as refusal:
        Slots("g" * 2**20, (Slot(0, "x" * 2**20), Slot(1, "x" * 2**20)))
    assert len(str(refusal.value)) < 500


# --- as members


def test_slots_are_the_members_of_a_plan() -> None:
    before = job("1", None, "3", draining=[2], empty_for=7.5)
    assert slots.make_members(before, {"1": "z1", "9": "z9"}) == [
        Member("b-0", "z1"),
        Member("b-1", lost_for_seconds=7.5),
        Member("b-2", draining=True),
    ]


def test_an_added_slot_counts_as_present_until_its_executor_is_overdue() -> None:
    added = step(job("1"), "1", wanted=2).slots
    assert slots.make_members(added, grace_seconds=60) == [Member("b-0"), Member("b-1")]
    overdue = step(added, "1", wanted=2, elapsed=60.0).slots
    assert slots.make_members(overdue, grace_seconds=60) == [
        Member("b-0"),
        Member("b-1", lost_for_seconds=60.0),
    ]


def test_a_replacement_moves_nothing_and_a_slot_empty_beyond_its_grace_moves_its_queues() -> None:
    queues = [QueueRange("t", "a", 0, 4)]
    policy = Policy(grace_seconds=60)
    first = plan.plan(None, queues, slots.make_members(job("1", "2")), policy)
    lost = step(job("1", "2"), "1").slots
    assert plan.plan(first, queues, slots.make_members(lost), policy).moved == 0
    replaced = step(lost, "13", elapsed=59.0).slots
    assert plan.plan(first, queues, slots.make_members(replaced), policy).moved == 0
    overdue = step(lost, "1", elapsed=60.0).slots
    assert plan.plan(first, queues, slots.make_members(overdue), policy).moved == 2


def test_the_first_plan_is_for_all_slots_and_executors_that_come_move_nothing() -> None:
    queues = [QueueRange("t", "a", 0, 4)]
    policy = Policy(grace_seconds=60)
    none_yet = step(Slots("b"), "", wanted=2).slots
    first = plan.plan(None, queues, slots.make_members(none_yet, grace_seconds=60), policy)
    assert first.assignment.loads == {"b-0": 2, "b-1": 2}
    one = step(none_yet, "7", wanted=2, elapsed=30.0).slots
    assert plan.plan(first, queues, slots.make_members(one, grace_seconds=60), policy).moved == 0
    late = step(one, "7", wanted=2, elapsed=30.0).slots
    assert plan.plan(first, queues, slots.make_members(late, grace_seconds=60), policy).moved == 2


# --- always


def any_slots(rng: random.Random) -> Slots:
    numbers = rng.sample(range(8), rng.randint(0, 6))
    made = [Slot(n, str(n + 100), is_draining=rng.random() < 0.3) for n in numbers]
    empty = [
        replace(slot, executor=None, empty_for_seconds=9.0) if rng.random() < 0.3 else slot
        for slot in made
    ]
    return Slots("b", tuple(empty))


def test_a_step_keeps_its_promises_whatever_it_is_given(rng: random.Random) -> None:
    for _ in range(3000):
        before = any_slots(rng)
        warm = [str(n + 100) for n in range(11) if rng.random() < 0.6]
        wanted = rng.randint(0, 7)
        ids = [f"b-{n}" for n in range(8)]
        drained, first = rng.sample(ids, 3), rng.sample(ids, 3)
        found = step(before, warm, wanted, 1.0, drained, first)
        seated = {slot.executor: slot.number for slot in found.slots.slots if slot.executor}
        let_go = {slot.executor for slot in found.released if slot.executor}
        assert sum(not slot.is_draining for slot in found.slots.slots) == wanted
        assert sorted([*seated, *found.waiting, *let_go]) == sorted(warm)
        assert not (found.waiting and any(slot.is_open for slot in found.slots.slots))
        for slot in before.slots:
            if slot.executor in seated:
                assert seated[slot.executor] == slot.number
        assert bool(found.events) == (
            found.released != () or _without_time(found.slots) != _without_time(before)
        )
        for some in (warm, drained):
            rng.shuffle(some)
        mixed = Slots("b", tuple(rng.sample(before.slots, len(before.slots))))
        assert step(mixed, warm, wanted, 1.0, drained, first) == found
        stay = [name for name in warm if name not in let_go]
        again = step(found.slots, stay, wanted, 0.0, (), first)
        assert (again.slots, again.waiting, again.events) == (found.slots, found.waiting, ())


def _without_time(found: Slots) -> list[Slot]:
    return [replace(slot, empty_for_seconds=0.0) for slot in found.slots]
