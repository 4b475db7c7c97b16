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
    raw = np.dtype((np.void, dtype.itemsize))  # copied as blocks, which is much faster than values
    windows = np.ndarray((max(0, len(data) - raw.itemsize + 1),), raw, data, 0, (1,))
    return windows[at].view(dtype)


def integers(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Make an Arrow array of numbers or timestamps. The bytes are copied only if they must."""
    plain = np.ascontiguousarray(values, kind.to_pandas_dtype() if kind.id in _PLAIN else np.int64)
    return pa.Array.from_buffers(kind, len(plain), [None, pa.py_buffer(plain)])


_PLAIN = (pa.int32().id, pa.int64().id)


def repeated(text: str, count: int) -> pa.Array:
    """Make a column with the same text in each row."""
    data = text.encode()
    return strings(data * count, np.arange(count + 1) * len(data))


def strings(data: bytes, offsets: Places, kind: pa.DataType | None = None) -> pa.Array:
    """Cut contiguous bytes into strings, or into values of another type of this layout."""
    places = pa.py_buffer(offsets.astype(np.int32))
    return pa.Array.from_buffers(
        kind or pa.string(), len(offsets) - 1, [None, places, pa.py_buffer(data)]
    )


def binary(data: Bytes, at: Places, lengths: Places) -> pa.Array:
    """Copy the pieces into one Arrow array of binaries."""
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    shift = np.repeat(at - offsets[:-1], lengths)
    return strings(data[shift + np.arange(offsets[-1])], offsets, pa.binary())


def binary_view(data: Bytes, buffer: pa.Buffer, at: Places, lengths: Places) -> pa.Array:
    """Point to the pieces: the array refers to the buffer, which holds the same bytes as `data`."""
    views = np.zeros(len(at), _VIEW)
    views["length"] = lengths
    is_long = lengths > INLINE
    views["prefix"][is_long] = fixed(data, at[is_long], "V4")
    views["offset"][is_long] = at[is_long]
    short = np.flatnonzero(~is_long)
    if len(short):
        views.view(np.uint8).reshape(-1, 16)[short, 4:] = _inlined(data, at[short], lengths[short])
    return pa.Array.from_buffers(pa.binary_view(), len(at), [None, pa.py_buffer(views), buffer])


def _inlined(data: Bytes, at: Places, lengths: Places) -> Bytes:
    steps = np.arange(INLINE)
    found = data[np.minimum(at[:, None] + steps, len(data) - 1)]
    found[steps >= lengths[:, None]] = 0
    return found


def text(values: pa.Array) -> pa.Array:
    """Read binaries as UTF-8; what is none becomes the replacement character."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([str(value, "utf-8", "replace") for value in values.to_pylist()], pa.string())
