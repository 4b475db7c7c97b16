from datetime import UTC, datetime

import pytest

from mq_client import errors
from mq_client.unique_keys import UniqueKeys

ORIGIN = bytes([10, 0, 0, 7]) + bytes.fromhex("1234 18B4AAC2")
NOON_OF_THE_THIRD = int(datetime(2026, 11, 3, 12, tzinfo=UTC).timestamp() * 1000)


def test_a_key_is_origin_time_of_the_month_and_count_in_hexadecimal() -> None:
    keys = UniqueKeys(ORIGIN, lambda: NOON_OF_THE_THIRD + 5)
    since = 60 * 60 * 1000 * (2 * 24 + 12) + 5
    assert keys.make() == f"0A000007123418B4AAC2{since:08X}0000"
    assert keys.make() == f"0A000007123418B4AAC2{since:08X}0001"


def test_keys_of_one_millisecond_are_distinct() -> None:
    keys = UniqueKeys(ORIGIN, lambda: NOON_OF_THE_THIRD)
    assert len({keys.make() for _ in range(1 << 16)}) == 1 << 16


def test_the_time_begins_anew_with_each_month() -> None:
    begin = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp() * 1000)
    january = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp() * 1000)
    times = iter([begin, january - 1, january, begin])
    keys = UniqueKeys(ORIGIN, lambda: next(times))
    seen = [int(keys.make()[20:28], 16) for _ in range(4)]
    assert seen == [0, january - begin - 1, 0, 0]


def test_every_key_has_32_digits() -> None:
    last_of_december = int(datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp() * 1000) + 999
    keys = UniqueKeys(ORIGIN, lambda: last_of_december)
    assert {len(keys.make()) for _ in range((1 << 16) + 1)} == {32}


def test_an_origin_of_another_length_is_refused() -> None:
    with pytest.raises(errors.UsageError, match="the origin has 4 bytes, not 10"):
        UniqueKeys(ORIGIN[:4], lambda: 0)
