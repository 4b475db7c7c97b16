"""How a producer chooses a queue: round robin, retries, back-off, and ordered sending."""

import random
from collections.abc import Iterable

import pytest

from lb_core import errors, producer
from lb_core.model import Queue, QueueRange
from lb_core.producer import Health, ProducerState, SendOutcome

FAULTS = [SendOutcome.NO_ANSWER, SendOutcome.REFUSED]


def view(**brokers: int) -> tuple[QueueRange, ...]:
    """Make queues of topic "t" on these brokers."""
    return tuple(QueueRange("t", name, 0, count) for name, count in brokers.items())


def at(index: int, **brokers: Health) -> ProducerState:
    return ProducerState({"t": index}, brokers)


def paused(until: float = 1000.0, is_reachable: bool = True) -> Health:
    return Health(600.0, until, is_reachable)


def name(queue: Queue) -> str:
    return f"{queue.broker}{queue.id}"


def pick(
    queues: tuple[QueueRange, ...],
    state: ProducerState,
    failed: str | None = None,
    now_ms: float | None = None,
) -> str:
    return name(producer.choose("t", queues, state, failed, now_ms).queue)


def go_round(
    queues: tuple[QueueRange, ...], times: int, state: ProducerState, now_ms: float | None = None
) -> str:
    picked = []
    for _ in range(times):
        choice = producer.choose("t", queues, state, now_ms=now_ms)
        picked.append(name(choice.queue))
        state = choice.state
    return " ".join(picked)


def note(
    outcome: SendOutcome,
    latency_ms: float = 1.0,
    state: ProducerState | None = None,
    now_ms: float = 0.0,
) -> Health:
    return producer.note(state or ProducerState(), "a", outcome, latency_ms, now_ms).brokers["a"]


# --- round robin and retries


def test_queues_are_taken_in_turn() -> None:
    assert go_round(view(a=2, b=3), 6, ProducerState()) == "a0 a1 b0 b1 b2 a0"


def test_the_caller_may_start_anywhere() -> None:
    assert go_round(view(a=2, b=2), 3, at(1_000_003)) == "b1 a0 a1"
    assert go_round(view(a=2, b=2), 2, at(-1)) == "b1 a0"


def test_each_topic_has_its_own_place() -> None:
    state = producer.choose("u", (QueueRange("u", "a", 0, 9),), at(3)).state
    assert pick(view(a=9), state) == "a3"


def test_a_retry_takes_the_next_queue_that_is_not_on_the_failed_broker() -> None:
    assert pick(view(a=3, b=2), at(2), failed="a") == "b0"


def test_a_retry_may_go_past_the_end_of_the_view() -> None:
    assert pick(view(a=2, b=2), at(3), failed="b") == "a0"


def test_a_retry_does_not_skip_a_queue_that_is_on_another_broker() -> None:
    assert pick(view(a=2, b=3), at(3), failed="a") == "b1"


def test_the_turn_goes_on_behind_the_queue_of_the_retry() -> None:
    choice = producer.choose("t", view(a=2, b=3), at(0), failed_broker="a")
    assert go_round(view(a=2, b=3), 3, choice.state) == "b1 b2 a0"


def test_a_retry_with_all_queues_on_the_failed_broker_is_plain_round_robin() -> None:
    assert pick(view(a=3), at(1), failed="a") == "a1"


def test_a_view_that_shrank_is_gone_round_all_the_same() -> None:
    assert go_round(view(a=2), 3, at(7)) == "a1 a0 a1"


def test_a_queue_carries_its_zone() -> None:
    queues = (QueueRange("t", "a", 0, 1, "z1"),)
    assert producer.choose("t", queues, ProducerState()).queue.zone == "z1"


def test_choosing_changes_no_state_that_was_handed_in() -> None:
    before = at(1, a=paused())
    producer.choose("t", view(a=2), before)
    producer.note(before, "a", SendOutcome.SENT, 1, 1)
    assert before == at(1, a=paused())


@pytest.mark.parametrize("queues", [(), []])
def test_nothing_writable_is_an_error_that_names_the_topic(queues: tuple[QueueRange, ...]) -> None:
    with pytest.raises(errors.NoWritableQueueError, match="topic orders has no writable queue"):
        producer.choose("orders", queues, ProducerState())
    with pytest.raises(errors.NoWritableQueueError, match="topic orders has no writable queue"):
        producer.choose_by_key("orders", queues, "k")


# --- back-off by latency


@pytest.mark.parametrize(
    ("latency_ms", "pause_ms"),
    [
        (0, 0),
        (50, 0),
        (100, 0),
        (549.9, 0),
        (550, 2_000),
        (1_799, 2_000),
        (1_800, 5_000),
        (2_999, 5_000),
        (3_000, 6_000),
        (4_999, 6_000),
        (5_000, 10_000),
        (14_999, 10_000),
        (15_000, 30_000),
        (10**9, 30_000),
    ],
)
def test_a_slow_broker_pauses_as_long_as_rocketmqs_table_says(
    latency_ms: float, pause_ms: int
) -> None:
    assert producer.choose_pause(latency_ms) == pause_ms
    until = note(SendOutcome.SENT, latency_ms, now_ms=7.0).available_at_ms
    assert until == (7.0 + pause_ms if pause_ms else None)


@pytest.mark.parametrize("outcome", FAULTS)
@pytest.mark.parametrize("latency_ms", [1, 20_000])
def test_a_failed_send_pauses_ten_seconds_however_long_it_took(
    outcome: SendOutcome, latency_ms: float
) -> None:
    assert note(outcome, latency_ms, now_ms=5.0).available_at_ms == 10_005


def test_available_to_paused_to_available() -> None:
    state = producer.note(ProducerState(), "a", SendOutcome.SENT, 600, now_ms=100)
    assert [state.is_available("a", now) for now in (100, 2_099, 2_100)] == [False, False, True]


def test_a_quick_send_does_not_end_a_pause() -> None:
    health = note(SendOutcome.SENT, 1, ProducerState({}, {"a": paused(until=900)}), now_ms=10)
    assert health == Health(1, 900, True)


def test_a_shorter_pause_does_not_cut_a_longer_one() -> None:
    before = ProducerState({}, {"a": paused(until=30_000)})
    assert note(SendOutcome.SENT, 600, before, now_ms=10).available_at_ms == 30_000


def test_a_longer_pause_prolongs_a_shorter_one() -> None:
    before = ProducerState({}, {"a": paused(until=2_000)})
    assert note(SendOutcome.NO_ANSWER, 600, before, now_ms=10).available_at_ms == 10_010


def test_reachable_to_unreachable_when_a_broker_refuses() -> None:
    assert not note(SendOutcome.REFUSED).is_reachable


def test_a_silent_broker_stays_reachable() -> None:
    assert note(SendOutcome.NO_ANSWER).is_reachable


def test_unreachable_to_reachable_after_a_good_send() -> None:
    before = ProducerState({}, {"a": paused(is_reachable=False)})
    assert note(SendOutcome.SENT, state=before).is_reachable


def test_without_the_time_nothing_is_left_out() -> None:
    assert pick(view(a=1, b=1), at(0, a=paused())) == "a0"


def test_with_the_time_a_paused_broker_is_left_out() -> None:
    assert go_round(view(a=2, b=2), 3, at(0, a=paused(1000)), now_ms=999) == "b0 b1 b0"
    assert pick(view(a=2, b=2), at(0, a=paused(1000)), now_ms=1000) == "a0"


def test_an_available_broker_is_taken_even_if_it_was_out_of_reach() -> None:
    state = at(0, a=paused(0, is_reachable=False), b=paused(1000))
    assert pick(view(a=1, b=1), state, now_ms=500) == "a0"


def test_where_none_is_available_a_reachable_one_is_taken() -> None:
    state = at(0, a=paused(is_reachable=False), b=paused())
    assert pick(view(a=1, b=1), state, now_ms=0) == "b0"


def test_a_retry_takes_a_paused_broker_rather_than_the_failed_one() -> None:
    assert pick(view(a=1, b=1), at(0, b=paused()), failed="a", now_ms=0) == "b0"


def test_where_none_is_reachable_it_is_plain_round_robin() -> None:
    lost = paused(is_reachable=False)
    assert go_round(view(a=1, b=1), 3, at(0, a=lost, b=lost), now_ms=0) == "a0 b0 a0"
    assert pick(view(a=1, b=1), at(0, b=lost), failed="a", now_ms=0) == "a0"


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_a_latency_or_a_time_that_cannot_be_is_refused_and_its_broker_named(bad: float) -> None:
    for latency_ms, now_ms in ((bad, 1.0), (1.0, bad)):
        with pytest.raises(errors.BadRequestError, match="broker a: "):
            producer.note(ProducerState(), "a", SendOutcome.SENT, latency_ms, now_ms)


def test_the_choice_is_that_of_looking_at_each_queue_in_turn(rng: random.Random) -> None:
    """The oracle goes once through all queues, from the index on, and takes the first that fits."""
    for _ in range(3000):
        queues = tuple(
            QueueRange("t", broker, 0, rng.randint(1, 3)) for broker in "abcd" if rng.random() < 0.8
        ) or view(a=1)
        brokers = {b: paused(rng.choice([0, 9]), rng.random() < 0.5) for b in "abcd"}
        state = ProducerState({"t": rng.randint(0, 99)}, brokers)
        failed, now = rng.choice([None, *"abcd"]), rng.choice([None, 5.0])
        assert pick(queues, state, failed, now) == name(_plain(queues, state, failed, now))


def _plain(
    queues: Iterable[QueueRange], state: ProducerState, failed: str | None, now: float | None
) -> Queue:
    single = [queue for each in queues for queue in each]
    index = state.indexes["t"] % len(single)
    turn = single[index:] + single[:index]
    others = [queue for queue in turn if queue.broker != failed]
    if now is None:
        return [*others, *turn][0]
    available = [queue for queue in others if state.is_available(queue.broker, now)]
    reachable = [queue for queue in others if state.is_reachable(queue.broker)]
    return [*available, *reachable, *turn][0]


# --- ordered sending


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("order-4711", 708276994),
        ("polygenelubricants", -(2**31)),
        ("\u00e4\u00f6\u00fc", 226986),
        ("\U0001f600", 1772899),
        ("\ud83d", 55357),
    ],
)
def test_a_text_has_the_hash_that_java_gives_it(text: str, expected: int) -> None:
    """The values come from Java 17; the last two strings are an emoji and half of one."""
    assert producer.hash_as_java(text) == expected


def test_one_key_always_lands_on_one_queue() -> None:
    queues = view(a=4, b=4)
    first = producer.choose_by_key("t", queues, "order-1")
    assert all(producer.choose_by_key("t", queues, "order-1") == first for _ in range(9))


@pytest.mark.parametrize(
    ("key", "expected"),
    [("order-4711", "b3"), ("polygenelubricants", "b0"), ("", "a0"), ("a", "c0")],
)
def test_a_key_lands_where_rocketmqs_selector_sends_it(key: str, expected: str) -> None:
    """The hashes of the keys are 708276994, -2**31, 0 and 97. Modulo 7 they give 5, -2, 0 and 6."""
    queues = (QueueRange("t", "a", 0, 2), QueueRange("t", "b", 0, 4), QueueRange("t", "c", 0, 1))
    assert name(producer.choose_by_key("t", queues, key)) == expected


def test_keys_spread_over_all_queues() -> None:
    chosen = {producer.choose_by_key("t", view(a=4, b=4), f"key-{n}") for n in range(200)}
    assert len(chosen) == 8
