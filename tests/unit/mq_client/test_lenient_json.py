"""Reads JSON in the form that RocketMQ writes."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq_client import errors, lenient_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_is_json_is_read_as_json(value: Any) -> None:
    assert lenient_json.parse(json.dumps(value).encode()) == value


def test_numbers_may_be_keys() -> None:
    assert lenient_json.parse(b'{"addrs":{0:"a:1", 1 : "b:2"}}') == {"addrs": {0: "a:1", 1: "b:2"}}


def test_objects_may_be_keys_and_are_found_by_their_sorted_items() -> None:
    read = lenient_json.parse(b'{{"topic":"t","queueId":0}:{"max":3},{"topic":"t","queueId":1}:{}}')
    assert read[("queueId", 0), ("topic", "t")] == {"max": 3}
    assert len(read) == 2


def test_lists_and_objects_within_keys_can_be_looked_up_too() -> None:
    read = lenient_json.parse(b'{[1,{"a":[2]}]:"x"}')
    assert read == {(1, (("a", (2,)),)): "x"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "no value"),
        (b"{0:1", "no ','"),
        (b"{0}", "no ':'"),
        (b"{0:1}x", "more text"),
        (b"[1 2]", "no ','"),
        (b'{0:"open', "no value"),
        (b"\xff", "not UTF-8"),
        (b"[" * 100_000, "64 levels"),
        (b"{0:" * 1_000, "64 levels"),
        (b'{0:"' + b"9" * 40 + b'",1:' + b"9" * 9_999, "no value"),
    ],
    ids=range(10),
)
def test_what_is_not_json_is_refused_with_the_reason(text: bytes, complaint: str) -> None:
    with pytest.raises(errors.ProtocolError, match=complaint):
        lenient_json.parse(text)


def test_a_text_with_many_odd_keys_does_not_take_longer_for_each_of_them() -> None:
    """The standard library counts the lines before each place at which it fails."""
    rows = 3 * lenient_json.MOST_FAILURES
    text = "[" + ",".join(['{0:{"a":[1]}}'] * rows) + "]"
    parser = lenient_json._JsonParser(text)
    assert parser.parse() == [{0: {"a": [1]}}] * rows
    assert parser.failures == lenient_json.MOST_FAILURES


@pytest.mark.parametrize("levels", [300, 900, 5_000, 100_000])
def test_a_key_with_many_levels_is_read_or_refused(levels: int) -> None:
    """How many levels Python can read depends on what runs in the process."""
    deep = '{"a":' * levels + "1" + "}" * levels
    with contextlib.suppress(errors.ProtocolError):
        lenient_json.parse(("{" + deep + ":1}").encode())


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        lenient_json.parse(data)
    except errors.ProtocolError:
        return
