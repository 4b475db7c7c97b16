"""The validator refuses bad results by name, whichever strategy made them."""

import pytest

from lb_core import Policy, Zones, check, errors, group, inventory
from lb_core.inventory import Runs
from lb_core.outcome import Outcome
from tests.groups import members, queues

STOCK = inventory.build(queues(4))
PEOPLE = group.sort_out(members("a", "b"), Policy())


def refuse(before: dict[str, Runs], after: dict[str, Runs], *, unowned: Runs = ()) -> None:
    held = [run for runs in before.values() for run in runs]
    free = inventory.subtract(STOCK.runs, inventory.merge(held))
    loads = {name: inventory.count(runs) for name, runs in after.items()}
    check.refuse_bad(STOCK, before, Outcome(after, loads, unowned=unowned), free)


def test_a_sound_result_passes() -> None:
    refuse({"a": (range(4),)}, {"a": (range(2),), "b": (range(2, 4),)})
    refuse({}, {"a": (range(1, 3),)}, unowned=(range(1), range(3, 4)))


@pytest.mark.parametrize(
    ("after", "error", "message"),
    [
        ({"a": (range(4),), "b": (range(3, 4),)}, errors.QueueOwnedTwiceError, "queue 3 .* a, b"),
        ({"a": (range(3),), "b": (range(1, 4),)}, errors.QueueOwnedTwiceError, "queue 1 .* a, b"),
        ({"a": (range(3),)}, errors.QueueLostError, "queue 3 of orders on broker-a has no owner"),
        ({"a": (range(4), range(4))}, errors.QueueOwnedTwiceError, "queue 0"),
        ({"a": (range(5),)}, errors.ForeignQueueError, "4 is not a queue"),
        ({"a": (range(3),), "b": (range(4, 5),)}, errors.ForeignQueueError, "4 is not a queue"),
    ],
    ids=["twice", "overlap", "lost", "same twice", "invented", "swapped for an invented one"],
)
@pytest.mark.parametrize("before", [{}, {"a": (range(4),)}, {"x": (range(2),)}], ids=repr)
def test_a_bad_result_is_refused_by_name(
    before: dict[str, Runs], after: dict[str, Runs], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        refuse(before, after)


def test_a_queue_that_is_owned_and_unowned_is_refused() -> None:
    with pytest.raises(errors.QueueOwnedTwiceError):
        refuse({}, {"a": (range(4),)}, unowned=(range(1),))


def test_a_queue_forgotten_on_both_sides_is_missed_in_the_count() -> None:
    """Queue 3 has no owner and is not listed as free. So the count of all queues is wrong."""
    before: dict[str, Runs] = {"a": (range(3),)}
    with pytest.raises(errors.QueueLostError, match="queue 3"):
        check.refuse_bad(STOCK, before, Outcome(dict(before), {"a": 3}), ())


def test_a_miscounted_load_is_refused() -> None:
    with pytest.raises(errors.InvalidPlanError, match="loads are miscounted"):
        check.refuse_bad(STOCK, {}, Outcome({"a": STOCK.runs}, {"a": 3}), STOCK.runs)


def test_a_stranger_may_get_nothing() -> None:
    with pytest.raises(errors.ForeignConsumerError, match="consumer x"):
        check.refuse_strangers(STOCK, PEOPLE, Zones.IGNORE, ["a", "b"], [("x", STOCK.runs)])
