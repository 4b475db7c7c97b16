import pytest

from mq_client import errors, properties


def test_properties_are_read_as_they_were_written() -> None:
    values = {"TAGS": "paid", "KEYS": "order-1 order-2", "größe": "µ €"}
    assert properties.parse(properties.encode(values)) == values


def test_no_properties_are_no_bytes() -> None:
    assert properties.encode({}) == b""
    assert properties.parse(b"") == {}


def test_properties_are_a_name_a_mark_a_value_and_a_mark() -> None:
    assert properties.encode({"TAGS": "a", "KEYS": "k"}) == b"TAGS\x01a\x02KEYS\x01k\x02"


@pytest.mark.parametrize(
    ("data", "values"),
    [
        pytest.param(b"a\x01b", {"a": "b"}, id="last mark is missing"),
        pytest.param(b"a\x02b\x01c\x02", {"b": "c"}, id="no value"),
        pytest.param(b"a\x01\x02b\x01c\x02", {"b": "c"}, id="empty value"),
        pytest.param(b"\x01a\x02b\x01c\x02", {"b": "c"}, id="empty name"),
        pytest.param(b"a\x01b\x01c\x02", {"a": "b\x01c"}, id="mark inside a value"),
        pytest.param(b"a\x01b\x02a\x01c\x02", {"a": "c"}, id="name is there twice"),
        pytest.param(b"\x02\x02\x01", {}, id="marks alone"),
    ],
)
def test_odd_properties_are_read_as_rocketmq_reads_them(
    data: bytes, values: dict[str, str]
) -> None:
    assert properties.parse(data) == values


def test_what_is_no_utf_8_becomes_the_replacement_character() -> None:
    assert properties.parse(b"a\x01\xff\xe2\x82\x02") == {"a": "\ufffd\ufffd"}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"a\x01": "b"}, r"none may contain \\x01 or \\x02"),
        ({"a": "b\x02"}, r"none may contain \\x01 or \\x02"),
        ({"": "b"}, "must not be empty"),
        ({"a": ""}, "must not be empty"),
        ({"a": "\ud800"}, "cannot be encoded"),
        ({"a": "b" * 32_765}, "properties of 32,768 bytes: at most 32,767"),
    ],
    ids=["mark in a name", "mark in a value", "no name", "no value", "half a pair", "too long"],
)
def test_properties_that_would_be_read_differently_are_not_written(
    values: dict[str, str], complaint: str
) -> None:
    with pytest.raises(errors.UsageError, match=complaint):
        properties.encode(values)


def test_the_longest_properties_are_written() -> None:
    assert len(properties.encode({"a": "b" * 32_764})) == properties.MOST_BYTES
