import tracemalloc
from collections.abc import Callable

import pytest
import zstandard

from mq_client import compression, errors
from mq_client.compression import Codec
from tests import stored

BODY = b"the same words again, " * 300


@pytest.fixture(params=Codec, ids=lambda codec: codec.name)
def codec(request: pytest.FixtureRequest) -> Codec:
    assert isinstance(request.param, Codec)
    return request.param


def test_a_body_is_small_and_then_whole_again(codec: Codec) -> None:
    small = stored.compress(BODY, codec)
    assert len(small) < len(BODY) / 10
    assert compression.expand(small, codec) == BODY
    assert compression.expand(memoryview(small), codec) == BODY


@pytest.mark.parametrize(
    ("sys_flag", "codec"),
    [
        pytest.param(0x000, None, id="plain"),
        pytest.param(0x300, None, id="plain, though it names a codec"),
        pytest.param(0x001, Codec.ZLIB, id="from an old client"),
        pytest.param(0x101, Codec.LZ4, id="LZ4"),
        pytest.param(0x201, Codec.ZSTD, id="zstd"),
        pytest.param(0x3F1, Codec.ZLIB, id="zlib, among other bits"),
    ],
)
def test_sys_flag_says_how_a_body_is_compressed(sys_flag: int, codec: Codec | None) -> None:
    assert compression.find_codec(sys_flag) is codec


def test_the_flag_of_a_codec_is_read_as_that_codec(codec: Codec) -> None:
    assert compression.find_codec(stored.flag_of(codec)) is codec


def test_a_compression_that_nobody_knows_is_refused() -> None:
    with pytest.raises(errors.ProtocolError, match="sysFlag 0x401: compression 4 is unknown"):
        compression.find_codec(0x401)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda small: small[:-3], "ends too early"),
        (lambda small: small[:1], "ends too early|does not expand"),
        (lambda small: b"", "ends too early"),
        (lambda small: b"none of them begins like this", "does not expand"),
    ],
    ids=["cut", "one byte", "empty", "something else"],
)
def test_a_broken_body_is_refused(
    codec: Codec, damage: Callable[[bytes], bytes], complaint: str
) -> None:
    with pytest.raises(errors.ProtocolError, match=complaint):
        compression.expand(damage(stored.compress(BODY, codec)), codec)


def test_a_body_may_be_as_large_as_the_limit_and_not_larger(codec: Codec) -> None:
    small = stored.compress(BODY, codec)
    assert compression.expand(small, codec, len(BODY)) == BODY
    with pytest.raises(errors.ProtocolError, match="larger than 6,599 bytes"):
        compression.expand(small, codec, len(BODY) - 1)


def test_a_bomb_takes_little_memory(codec: Codec) -> None:
    bomb = stored.compress(bytes(100_000_000), codec)
    tracemalloc.start()
    with pytest.raises(errors.ProtocolError, match="larger than"):
        compression.expand(bomb, codec, 1_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000


def test_a_zstd_frame_may_ask_for_no_huge_window() -> None:
    asks = zstandard.ZstdCompressionParameters(window_log=27)
    machine = zstandard.ZstdCompressor(compression_params=asks).compressobj()
    small = machine.compress(BODY) + machine.flush()
    with pytest.raises(errors.ProtocolError, match="does not expand"):
        compression.expand(small, Codec.ZSTD)


def test_only_what_is_compressed_is_restored(codec: Codec) -> None:
    small = stored.compress(BODY, codec)
    assert compression.restore(small, stored.flag_of(codec), len(BODY)) == BODY
    assert compression.restore(small, 0, 0) is small


def test_a_body_is_restored_within_the_room_that_is_left(codec: Codec) -> None:
    small = stored.compress(BODY, codec)
    with pytest.raises(errors.ProtocolError, match="larger than 100 bytes"):
        compression.restore(small, stored.flag_of(codec), 100)


def test_an_empty_body_stays_empty_whatever_its_flags_say() -> None:
    assert compression.restore(b"", 0x701, 100) == b""
