"""
Reads the properties of many messages as Arrow columns.

The properties of all messages lie one after another in memory. Marks split them into segments: a
name, a mark, a value, a mark, and so on. Arrow can use these segments as an array without a copy,
and fetches names or values from this array. If a value contains a mark, the messages are read one
by one, with the same result.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mq_client import gather, properties
from mq_client.gather import Bytes, Places

MAP = pa.map_(pa.string(), pa.string())
MOST_ASCII = 0x7F
MOST_COUNTERS = 1 << 20
"""Limit of the temporary counters: 8 MiB."""

_VALUE_END = properties.VALUE_END.encode()


class Properties:
    """The properties of each row, as `properties.parse` would read them."""

    def __init__(self, raw: pa.Array) -> None:
        """Read a column of raw properties, which are binaries or views."""
        self._texts = raw.cast(pa.binary())
        self._cut = _cut(self._texts)

    def get(self, name: str) -> pa.Array:
        """Fetch a property's value for each message; null if a message has no such property."""
        if self._cut:
            return self._cut.get(name)
        return pa.array([texts.get(name) for texts in self._parse_texts()], pa.string())

    def to_maps(self) -> pa.MapArray:
        """Fetch all properties of each message."""
        maps = self._cut.to_maps() if self._cut else None
        return maps or pa.array([list(texts.items()) for texts in self._parse_texts()], MAP)

    def _parse_texts(self) -> list[dict[str, str]]:
        return [properties.parse(text) for text in self._texts.to_pylist()]


@dataclass(slots=True)
class _Cut:
    """Properties that have exactly one mark between name and value."""

    data: Bytes
    segments: pa.StringArray
    names: Places
    """
    This field and the next three describe each property: the position and the length of its name in
    `data`, the segment of its name, and the segment of its value.
    """
    lengths: Places
    name_segments: Places
    value_segments: Places
    bounds: Places
    """Row n has the properties from `bounds[n]` up to `bounds[n + 1]`, exclusive."""

    def get(self, name: str) -> pa.Array:
        found = np.full(len(self.bounds) - 1, -1)
        hits = self._find_named(name.encode())
        found[self._find_rows(hits)] = self.value_segments[
            hits
        ]  # if a row has the name twice, the last value counts
        return self.segments.take(pa.array(found, mask=found < 0))

    def to_maps(self) -> pa.MapArray | None:
        """Make maps. Return None if a row has a name twice, because maps do not allow this."""
        names = self.segments.take(pa.array(self.name_segments))
        if self._has_twins(names.dictionary_encode()):
            return None
        values = self.segments.take(pa.array(self.value_segments))
        return pa.MapArray.from_arrays(pa.array(self.bounds, pa.int32()), names, values)

    def keep(self, keep: NDArray[np.bool_]) -> "_Cut":
        return replace(
            self,
            names=self.names[keep],
            lengths=self.lengths[keep],
            name_segments=self.name_segments[keep],
            value_segments=self.value_segments[keep],
            bounds=np.append(0, np.cumsum(keep))[self.bounds],
        )

    def _find_named(self, name: bytes) -> Places:
        like = np.flatnonzero(self.lengths == len(name))
        if not len(like):
            return like
        found = gather.fetch(self.data, self.names[like], (np.void, len(name)))
        return np.compress(found == np.frombuffer(name, found.dtype), like)

    def _find_rows(self, items: Places) -> Places:
        return np.searchsorted(self.bounds, items, side="right") - 1

    def _has_twins(self, names: pa.DictionaryArray) -> bool:
        rows = np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))
        kinds = len(names.dictionary)
        pairs = rows * kinds + names.indices.to_numpy()
        if len(self.bounds) * kinds > MOST_COUNTERS:
            return len(np.unique(pairs)) < len(pairs)
        return bool((np.bincount(pairs) > 1).any())  # counters are much faster than sorting


def _cut(texts: pa.BinaryArray) -> _Cut | None:
    """Find names and values. Return None if a value contains a mark, or is not valid UTF-8."""
    data, offsets = _get_bytes(texts)
    if not _are_ended(data, offsets):
        data, offsets = _get_bytes(pc.binary_join_element_wise(texts, b"", _VALUE_END))
    marks = np.flatnonzero((data - 1) < 2)
    last = np.flatnonzero(data[marks] == _VALUE_END[0])
    first = np.append(0, last[:-1] + 1)[: len(last)]  # the marks of each item are first to last
    segments = _split(data, marks)
    if segments is None or (last > first + 1).any():
        return None
    ends, separators = marks[last], marks[first]
    starts = np.append(0, ends[:-1] + 1)[: len(ends)]
    is_pair = (starts < separators) & (separators + 1 < ends)
    bounds = np.searchsorted(ends, offsets)
    cut = _Cut(data, segments, starts, separators - starts, 2 * first, 2 * last, bounds)
    return cut if is_pair.all() else cut.keep(is_pair)


def _get_bytes(texts: pa.BinaryArray) -> tuple[Bytes, Places]:
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    whole = np.frombuffer(data or b"", np.uint8)
    return whole[places[0] : places[-1]], places - places[0]


def _are_ended(data: Bytes, offsets: Places) -> bool:
    ends = offsets[1:][np.diff(offsets) > 0]
    return bool((data[ends - 1] == _VALUE_END[0]).all())


def _split(data: Bytes, marks: Places) -> pa.StringArray | None:
    """Split before and after each mark: segment 2n lies before mark n."""
    cuts = np.zeros(2 * len(marks) + 1, np.int64)
    cuts[1::2], cuts[2::2] = marks, marks + 1
    segments = gather.cut_values(data, cuts, pa.string())
    return segments if _is_utf8(data, segments) else None


def _is_utf8(data: Bytes, segments: pa.StringArray) -> bool:
    if data.max(initial=0) <= MOST_ASCII:  # the fast check avoids the slow one
        return True
    try:
        segments.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
