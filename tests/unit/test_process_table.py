"""What a consumer does when it is given a new list of queues."""

import random
from collections.abc import Iterable

import pytest

from lb_core import errors, process_table
from lb_core.model import Queue, QueueRange
from lb_core.process_table import Step

Table = dict[Queue, float]


def queues(*ids: int, topic: str = "t", broker: str = "a") -> tuple[Queue, ...]:
    return tuple(Queue(topic, broker, number) for number in ids)


def table(*ids: int, idle: float = 1.0, topic: str = "t") -> Table:
    return dict.fromkeys(queues(*ids, topic=topic), idle)


def step(
    reading: Table,
    assigned: Iterable[Queue | QueueRange],
    topics: Iterable[str] = ("t",),
    is_ordered: bool = False,
) -> Step:
    return process_table.step(reading, assigned, topics, is_ordered)


def test_a_queue_that_is_not_given_any_more_is_dropped() -> None:
    assert step(table(0, 1), queues(0)).drop == queues(1)


def test_a_queue_that_is_given_again_is_kept_untouched() -> None:
    found = step(table(0, 1), queues(0, 1))
    assert found == Step((), queues(0, 1), (), (), (), ())
    assert not found.is_change


def test_a_new_queue_is_added() -> None:
    found = step(table(0), queues(0, 1))
    assert (found.add, found.lock_first) == (queues(1), ())


def test_kept_to_expired_after_120_seconds_without_a_pull() -> None:
    """RocketMQ compares with `>`: at exactly 120 s a queue is still alive."""
    assert step(table(0, idle=120.0), queues(0)).keep == queues(0)
    found = step(table(0, idle=120.001), queues(0))
    assert (found.expired, found.keep, found.drop) == (queues(0), (), ())


def test_a_queue_that_is_not_given_any_more_is_dropped_however_long_it_was_idle() -> None:
    found = step(table(0, idle=999.0), [])
    assert (found.drop, found.expired) == (queues(0), ())


def test_the_idle_limit_can_be_set() -> None:
    found = process_table.step(table(0, idle=6.0), queues(0), ["t"], idle_limit_seconds=5)
    assert found.expired == queues(0)


def test_in_ordered_use_all_that_starts_is_locked_first() -> None:
    reading = {**table(0), **table(1, idle=500.0)}
    found = step(reading, queues(0, 1, 2), is_ordered=True)
    assert (found.expired, found.add, found.lock_first) == (queues(1), queues(2), queues(1, 2))


def test_queues_of_a_topic_that_is_not_subscribed_any_more_are_dropped() -> None:
    reading = {**table(0), **table(0, topic="old")}
    found = step(reading, queues(0))
    assert (found.drop, found.unsubscribed) == (queues(0, topic="old"), ("old",))


def test_an_assigned_queue_of_a_topic_without_subscription_is_not_taken() -> None:
    found = step(table(0), [*queues(0), *queues(1, topic="new")])
    assert (found.add, found.unsubscribed) == ((), ("new",))


def test_an_assigned_queue_that_is_read_is_dropped_with_its_subscription() -> None:
    found = step(table(0), queues(0), topics=[])
    assert (found.drop, found.keep, found.unsubscribed) == (queues(0), (), ("t",))


def test_an_empty_list_drops_everything() -> None:
    assert step(table(0, 1), []).drop == queues(0, 1)


def test_ranges_do_as_well_as_single_queues() -> None:
    assert step(table(1), [QueueRange("t", "a", 0, 3)]) == step(table(1), queues(0, 1, 2))


def test_a_queue_that_is_listed_twice_is_assigned_once() -> None:
    assert step({}, [*queues(0, 0), QueueRange("t", "a", 0, 1)]).add == queues(0)


def test_a_queue_whose_zone_is_told_otherwise_is_the_same_queue() -> None:
    assert step(table(0), [Queue("t", "a", 0, "z1")]).keep == queues(0)


def test_every_list_is_in_rocketmqs_order() -> None:
    """By topic and broker as UTF-16 text, then by the id as a number."""
    expected = (
        Queue("t", "a", 2),
        Queue("t", "a", 10),
        Queue("t", "\U0001f600", 0),
        Queue("t", "\uff5e", 0),
        Queue("u", "a", 0),
    )
    given = expected[::-1]
    topics = ["t", "u"]
    idle = process_table.IDLE_LIMIT_SECONDS + 1
    assert step({}, given, topics, is_ordered=True).add == expected
    assert step({}, given, topics, is_ordered=True).lock_first == expected
    assert step(dict.fromkeys(given, 1.0), [], topics).drop == expected
    assert step(dict.fromkeys(given, 1.0), given, topics).keep == expected
    assert step(dict.fromkeys(given, idle), given, topics).expired == expected
    assert step(dict.fromkeys(given, 1.0), [], []).unsubscribed == ("t", "u")


@pytest.mark.parametrize(
    ("reading", "assigned"), [(table(0), []), ({}, queues(0)), (table(0, idle=121), queues(0))]
)
def test_dropping_adding_and_rebuilding_are_changes(
    reading: Table, assigned: tuple[Queue, ...]
) -> None:
    assert step(reading, assigned).is_change


@pytest.mark.parametrize("idle", [-1.0, float("nan"), float("inf"), True, "5"])
def test_an_idle_time_that_cannot_be_is_refused_and_its_queue_named(idle: float) -> None:
    with pytest.raises(errors.BadRequestError, match="queue 0 of t on a: idle"):
        step(table(0, idle=idle), [])


def test_an_idle_limit_that_cannot_be_is_refused() -> None:
    with pytest.raises(errors.BadRequestError, match="idle limit: -1"):
        process_table.step({}, [], [], idle_limit_seconds=-1)


def test_a_queue_is_in_exactly_one_of_drop_keep_expired_and_add(rng: random.Random) -> None:
    for _ in range(2000):
        everything = [Queue(t, b, n) for t in "tuv" for b in "ab" for n in range(3)]
        reading = {q: rng.choice([1.0, 119.0, 121.0]) for q in everything if rng.random() < 0.5}
        assigned = [queue for queue in everything if rng.random() < 0.5]
        topics = {topic for topic in "tuv" if rng.random() < 0.7}
        found = step(reading, assigned, topics, is_ordered=True)
        listed = [*found.drop, *found.keep, *found.expired, *found.add]
        wanted = {queue for queue in assigned if queue.topic in topics}
        assert len(listed) == len(set(listed))
        assert set(listed) == reading.keys() | wanted
        assert {*found.keep, *found.expired, *found.add} == wanted
        assert {*found.drop, *found.keep, *found.expired} == reading.keys()
        assert set(found.lock_first) == {*found.expired, *found.add}
        rng.shuffle(assigned)
        assert step(dict(reversed(reading.items())), assigned, topics, is_ordered=True) == found
