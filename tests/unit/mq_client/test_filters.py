"""Filters by tag and by SQL."""

import pytest

from lb_core.producer import hash_as_java
from mq_client import errors, filters


@pytest.mark.parametrize("tag", ["a", "paid", "TagA", "Ünï", "😀x", "a" * 100])
def test_a_tags_hash_is_javas(tag: str) -> None:
    assert filters.hash_tag(tag) == hash_as_java(tag)


def test_known_hashes_of_java() -> None:
    assert [filters.hash_tag(text) for text in ("", "a", "hello", "polygenelubricants")] == [
        0,
        97,
        99162322,
        -(2**31),
    ]


@pytest.mark.parametrize("expression", ["*", "", "  "])
def test_no_tag_is_every_tag(expression: str) -> None:
    wanted = filters.match_tags(expression)
    assert wanted.matches(None)
    assert wanted.matches("any")


def test_tags_are_compared_by_name_because_brokers_compare_hashes() -> None:
    wanted = filters.match_tags("Aa || paid")
    assert filters.hash_tag("Aa") == filters.hash_tag("BB")
    assert wanted.matches("Aa")
    assert not wanted.matches("BB")
    assert not wanted.matches(None)


@pytest.mark.parametrize("expression", ["a ||", "|| a", "a || || b", "a || *"])
def test_a_tag_filter_with_a_hole_is_refused(expression: str) -> None:
    with pytest.raises(errors.UsageError, match="separate tags by"):
        filters.match_tags(expression)


def test_a_subscription_is_described_as_heartbeats_do() -> None:
    assert filters.match_tags("b || a").to_subscription("orders", 7) == {
        "topic": "orders",
        "subString": "b || a",
        "tagsSet": ["a", "b"],
        "codeSet": [97, 98],
        "subVersion": 7,
        "expressionType": "TAG",
    }


def test_sql_is_the_brokers_to_judge() -> None:
    wanted = filters.match_sql("amount > 10")
    assert wanted.matches("any")
    assert wanted.to_subscription("orders")["expressionType"] == "SQL92"
    with pytest.raises(errors.UsageError, match="empty"):
        filters.match_sql(" ")
