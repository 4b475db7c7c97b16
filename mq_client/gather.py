"""
Fetch many small pieces of one buffer at once, as numpy numbers or as Arrow values.

`data` is the buffer as an array of bytes. `at` contains the position of each piece. The callers
have checked that every piece lies within the buffer.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]

INLINE = 12
"""An Arrow view contains a value of at most this length; of a longer one, the first four bytes."""
_VIEW = np.dtype([("length", "<i4"), ("prefix", "V4"), ("buffer", "<i4"), ("offset", "<i4")])


def fetch(data: Bytes, at: Places, kind: DTypeLike) -> NDArray[Any]:
    """Fetch a value of this type from each position, aligned or not."""
    dtype = np.dtype(kind)
    block = np.dtype((np.void, dtype.itemsize))  # blocks are copied much faster than values
    count = max(0, len(data) - block.itemsize + 1)  # 0 if the data is shorter than one value
    windows: NDArray[Any] = np.ndarray((count,), block, data, 0, (1,))
    return windows[at].view(dtype)


def make_numbers(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Make an Arrow array of numbers that already have the right width."""
    plain = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, plain])


def cut_values(data: bytes | Bytes | pa.Buffer, offsets: Places, kind: pa.DataType) -> pa.Array:
    """Cut contiguous bytes into strings or binaries."""
    places = pa.py_buffer(offsets.astype(np.int32))
    buffers = [None, places, data if isinstance(data, pa.Buffer) else pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def repeat(text: str, count: int) -> pa.Array:
    """Make a column with the same string in each row."""
    data = text.encode()
    return cut_values(data * count, np.arange(count + 1) * len(data), pa.string())


def copy_pieces(data: Bytes, at: Places, lengths: Places) -> pa.Array:
    """Copy the pieces into one Arrow array of binaries."""
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    if len(at) and lengths.min() == lengths.max():
        return cut_values(
            fetch(data, at, (np.void, lengths[0])).view(np.uint8), offsets, pa.binary()
        )
    shifts = np.repeat(at - offsets[:-1], lengths)
    return cut_values(data[shifts + np.arange(len(shifts))], offsets, pa.binary())


def view_pieces(data: Bytes, buffer: pa.Buffer, at: Places, lengths: Places) -> pa.Array:
    """Make an Arrow array of views into the buffer, which holds the same bytes as `data`."""
    views = np.zeros(len(at), _VIEW)
    views["length"] = lengths
    is_long = lengths > INLINE
    views["prefix"][is_long] = fetch(data, at[is_long], "V4")
    views["offset"][is_long] = at[is_long]
    short = np.flatnonzero(~is_long)
    views.view(np.uint8).reshape(-1, 16)[short, 4:] = _fetch_short(data, at[short], lengths[short])
    return pa.Array.from_buffers(pa.binary_view(), len(at), [None, pa.py_buffer(views), buffer])


def _fetch_short(data: Bytes, at: Places, lengths: Places) -> Bytes:
    """Fetch short pieces, padded with zeros as Arrow requires."""
    steps = np.arange(INLINE)
    found: Bytes = data[np.minimum(at[:, None] + steps, len(data) - 1)]
    found[steps >= lengths[:, None]] = 0
    return found


def decode_text(found: pa.Array) -> pa.Array:
    """Decode binaries as UTF-8. Invalid bytes become the replacement character."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [str(value, "utf-8", "replace") for value in found.to_pylist()], pa.string()
        )
