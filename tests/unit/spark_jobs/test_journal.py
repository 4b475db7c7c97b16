"""Offsets as JSON: equal offsets give equal text, and the text gives the same offsets back."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq_client import filters
from mq_client.errors import UsageError
from mq_client.values import MessageQueue
from spark_jobs import journal
from spark_jobs.journal import Entry

OFFSETS = st.dictionaries(
    st.builds(MessageQueue, st.sampled_from("abß"), st.sampled_from("ab"), st.integers(0, 20)),
    st.integers(0, 2**63 - 1),
)


def test_offsets_are_written_by_topic_broker_and_queue() -> None:
    offsets = {MessageQueue("orders", "broker-a", 0): 23, MessageQueue("orders", "broker-b", 11): 0}
    assert journal.write_offsets(offsets) == {
        "orders": {"broker-a": {"0": 23}, "broker-b": {"11": 0}}
    }


@given(OFFSETS, st.randoms())
def test_the_text_does_not_depend_on_the_order_of_queues(
    offsets: dict[MessageQueue, int], rng: random.Random
) -> None:
    items = list(offsets.items())
    rng.shuffle(items)
    assert json.dumps(journal.write_offsets(dict(items))) == json.dumps(
        journal.write_offsets(offsets)
    )


@given(OFFSETS)
def test_the_text_is_what_sorted_keys_give(offsets: dict[MessageQueue, int]) -> None:
    tree = journal.write_offsets(offsets)
    assert json.dumps(tree) == json.dumps(tree, sort_keys=True)


@given(OFFSETS)
def test_what_was_written_is_read_back(offsets: dict[MessageQueue, int]) -> None:
    assert journal.read_offsets(json.loads(json.dumps(journal.write_offsets(offsets)))) == offsets


@pytest.mark.parametrize(
    ("written", "said"),
    [
        pytest.param([], "offsets must be an object, as in", id="a list"),
        pytest.param("x", "offsets must be an object, as in", id="a text"),
        pytest.param(None, "offsets must be an object, as in", id="nothing"),
        pytest.param({"orders": 7}, "the brokers of topic 'orders' must", id="no brokers"),
        pytest.param({"orders": {"a": 7}}, "the queues of topic 'orders' on 'a'", id="no queues"),
        pytest.param({"orders": {"a": {"x": 7}}}, "the queue must be a number", id="not a number"),
        pytest.param(
            {"orders": {"a": {"-1": 7}}}, "the queue must be a number", id="a negative queue"
        ),
        pytest.param({"orders": {"a": {" 1": 7}}}, "the queue must be a number", id="with a space"),
        pytest.param({"orders": {"a": {"0": "7"}}}, "'7' is not an offset", id="as text"),
        pytest.param({"orders": {"a": {"0": 7.0}}}, "7.0 is not an offset", id="with a point"),
        pytest.param({"orders": {"a": {"0": True}}}, "True is not an offset", id="a truth"),
        pytest.param({"orders": {"a": {"0": -1}}}, "-1 is not an offset", id="negative"),
    ],
)
def test_an_error_says_which_part_of_offsets_is_wrong(written: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        journal.read_offsets(written)


def test_negative_offsets_are_read_where_they_mean_something() -> None:
    written = {"orders": {"broker-a": {"0": -2, "1": -1}}}
    assert list(journal.read_offsets(written, least=-2).values()) == [-2, -1]
    with pytest.raises(ValueError, match="queue '0': -3 is not an offset of at least -2"):
        journal.read_offsets({"orders": {"broker-a": {"0": -3}}}, least=-2)


# --- the log entry for the end of a batch

A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("payments", "broker-a", 0)


@pytest.mark.parametrize(
    "entry",
    [
        Entry({}, filters.EVERYTHING, is_begun=False),
        Entry({}, filters.EVERYTHING),
        Entry({A: 3}, filters.match_tags("paid")),
        Entry({A: 3}, filters.match_sql("amount > 3"), {B: 7}),
        Entry({}, filters.EVERYTHING, {B: 7}),
    ],
    ids=["not begun", "no topic yet", "one", "one and one aside", "all aside"],
)
def test_an_entry_is_read_as_it_was_written(entry: Entry) -> None:
    assert journal.read(json.loads(json.dumps(entry.write()))) == entry


def test_what_is_no_entry_is_refused() -> None:
    no_entries: list[dict[str, Any]] = [{}, {"offsets": {}}, {"filter": {}, "offsets": {}}]
    for written in no_entries:
        with pytest.raises(UsageError, match="choose another checkpointLocation"):
            journal.read(written)


def test_topics_that_are_read_no_more_are_set_aside_and_come_back() -> None:
    both = Entry({A: 3, B: 7}, filters.EVERYTHING)
    assert both.divide(lambda topic: topic == "orders") == ({A: 3}, {}, {B: 7})
    one = Entry({A: 4}, filters.EVERYTHING, {B: 7})
    assert one.divide(lambda topic: topic == "orders") == ({A: 4}, {}, {B: 7})
    assert one.divide(lambda _: True) == ({A: 4}, {B: 7}, {})
    assert one.divide(lambda topic: topic == "payments") == ({}, {B: 7}, {A: 4})
