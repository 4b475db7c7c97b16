"""Offsets as JSON: the same offsets give the same text, and the text gives them back."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq_client.values import Queue
from spark_jobs import journal

OFFSETS = st.dictionaries(
    st.builds(Queue, st.sampled_from("abß"), st.sampled_from("ab"), st.integers(0, 20)),
    st.integers(0, 2**63 - 1),
)


def test_offsets_are_written_by_topic_broker_and_queue() -> None:
    offsets = {Queue("orders", "broker-a", 0): 23, Queue("orders", "broker-b", 11): 0}
    assert journal.tree(offsets) == {"orders": {"broker-a": {"0": 23}, "broker-b": {"11": 0}}}


@given(OFFSETS, st.randoms())
def test_the_text_does_not_depend_on_the_order_of_queues(
    offsets: dict[Queue, int], rng: random.Random
) -> None:
    items = list(offsets.items())
    rng.shuffle(items)
    assert json.dumps(journal.tree(dict(items))) == json.dumps(journal.tree(offsets))


@given(OFFSETS)
def test_the_text_is_what_sorted_keys_give(offsets: dict[Queue, int]) -> None:
    tree = journal.tree(offsets)
    assert json.dumps(tree) == json.dumps(tree, sort_keys=True)


@given(OFFSETS)
def test_what_was_written_is_read_back(offsets: dict[Queue, int]) -> None:
    assert journal.offsets(json.loads(json.dumps(journal.tree(offsets)))) == offsets


@pytest.mark.parametrize(
    "written",
    [
        pytest.param([], id="a list"),
        pytest.param("x", id="a text"),
        pytest.param(None, id="nothing"),
        pytest.param({"orders": 7}, id="no brokers"),
        pytest.param({"orders": {"broker-a": 7}}, id="no queues"),
        pytest.param({"orders": {"broker-a": {"x": 7}}}, id="a queue that is no number"),
        pytest.param({"orders": {"broker-a": {"-1": 7}}}, id="a negative queue"),
        pytest.param({"orders": {"broker-a": {" 1": 7}}}, id="a queue with a space"),
        pytest.param({"orders": {"broker-a": {"0": "7"}}}, id="an offset as text"),
        pytest.param({"orders": {"broker-a": {"0": 7.0}}}, id="an offset with a point"),
        pytest.param({"orders": {"broker-a": {"0": True}}}, id="an offset that is a truth"),
        pytest.param({"orders": {"broker-a": {"0": -1}}}, id="a negative offset"),
    ],
)
def test_what_is_no_offsets_is_refused_with_an_example(written: Any) -> None:
    with pytest.raises(ValueError, match=r'are no offsets, as in \{"topic"'):
        journal.offsets(written)


def test_negative_offsets_are_read_where_they_mean_something() -> None:
    written = {"orders": {"broker-a": {"0": -2, "1": -1}}}
    assert list(journal.offsets(written, least=-2).values()) == [-2, -1]
    with pytest.raises(ValueError, match="no offsets"):
        journal.offsets({"orders": {"broker-a": {"0": -3}}}, least=-2)
