"""
Fetch many small pieces of one buffer at once, as numpy numbers or as Arrow values.

`data` is the buffer as an array of bytes, `at` says where each piece begins. The callers have
checked that every piece lies within the buffer.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]

INLINE = 12
"""A binary view holds so many bytes itself; of longer values only the first four."""
_VIEW = np.dtype([("length", "<i4"), ("prefix", "V4"), ("buffer", "<i4"), ("offset", "<i4")])


def fixed(data: Bytes, at: Places, kind: DTypeLike) -> NDArray[Any]:
    """Fetch a value of this type from each place, whatever its alignment."""
    dtype = np.dtype(kind)
    block = np.dtype((np.void, dtype.itemsize))  # blocks are copied much faster than values are
    count = max(0, len(data) - block.itemsize + 1)  # none where there is not even one such value
    windows: NDArray[Any] = np.ndarray((count,), block, data, 0, (1,))
    return windows[at].view(dtype)


def numbers(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Hand numbers of the right width over to Arrow."""
    plain = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, plain])


def values(data: bytes | Bytes | pa.Buffer, offsets: Places, kind: pa.DataType) -> pa.Array:
    """Cut contiguous bytes into strings or binaries."""
    places = pa.py_buffer(offsets.astype(np.int32))
    buffers = [None, places, data if isinstance(data, pa.Buffer) else pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def repeated(text: str, count: int) -> pa.Array:
    """Make a column with the same text in each row."""
    data = text.encode()
    return values(data * count, np.arange(count + 1) * len(data), pa.string())


def binary(data: Bytes, at: Places, lengths: Places) -> pa.Array:
    """Copy the pieces into one Arrow array of binaries."""
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    if len(at) and lengths.min() == lengths.max():
        return values(fixed(data, at, (np.void, lengths[0])).view(np.uint8), offsets, pa.binary())
    shifts = np.repeat(at - offsets[:-1], lengths)
    return values(data[shifts + np.arange(len(shifts))], offsets, pa.binary())


def binary_view(data: Bytes, buffer: pa.Buffer, at: Places, lengths: Places) -> pa.Array:
    """Point to the pieces: the array refers to the buffer, which holds the same bytes as `data`."""
    views = np.zeros(len(at), _VIEW)
    views["length"] = lengths
    is_long = lengths > INLINE
    views["prefix"][is_long] = fixed(data, at[is_long], "V4")
    views["offset"][is_long] = at[is_long]
    short = np.flatnonzero(~is_long)
    views.view(np.uint8).reshape(-1, 16)[short, 4:] = _inlined(data, at[short], lengths[short])
    return pa.Array.from_buffers(pa.binary_view(), len(at), [None, pa.py_buffer(views), buffer])


def _inlined(data: Bytes, at: Places, lengths: Places) -> Bytes:
    """Fetch short pieces, padded with zeros as Arrow wants it."""
    steps = np.arange(INLINE)
    found: Bytes = data[np.minimum(at[:, None] + steps, len(data) - 1)]
    found[steps >= lengths[:, None]] = 0
    return found


def text(found: pa.Array) -> pa.Array:
    """Read binaries as UTF-8; what is none becomes the replacement character."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [str(value, "utf-8", "replace") for value in found.to_pylist()], pa.string()
        )
