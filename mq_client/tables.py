"""Formats rows as a table for people, or as JSON for programs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def to_json(rows: Iterable[Row]) -> str:
    """Format rows as a JSON list of objects."""
    return json.dumps(list(rows), indent=2, default=str)


def to_json_line(row: Row) -> str:
    """Format a row as a JSON object on one line."""
    return json.dumps(row, default=str)


def to_table(columns: Sequence[str], rows: Iterable[Row]) -> str:
    """Format rows as a table with headings: numbers right-aligned, other values left-aligned."""
    values = [[row[name] for name in columns] for row in rows]
    texts = [[to_one_line(value) for value in row] for row in values]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    right = [
        bool(column) and all(isinstance(value, int) for value in column)
        for column in zip(*values, strict=True)
    ] or [False] * len(columns)
    lines = [list(map(_make_heading, columns)), *texts]
    return "\n".join(_align(line, widths, right) for line in lines)


class Growing:
    """A table that is printed row by row. Columns become wider when a value needs more space."""

    def __init__(self, columns: Sequence[str]) -> None:
        """Start a table without rows."""
        self._columns = columns
        self._widths = [len(_make_heading(name)) for name in columns]
        self._is_new = True

    def add(self, row: Row) -> str:
        """Format a row. The names of the columns are added above the first row."""
        values = [row[name] for name in self._columns]
        texts = [to_one_line(value) for value in values]
        self._widths = [max(pair) for pair in zip(self._widths, map(len, texts), strict=True)]
        right = [isinstance(value, int) for value in values]
        lines = [list(map(_make_heading, self._columns)), texts] if self._is_new else [texts]
        self._is_new = False
        return "\n".join(_align(line, self._widths, right) for line in lines)


def _make_heading(name: str) -> str:
    return name.upper().replace("_", " ")


def _align(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    return "  ".join(
        text.rjust(width) if is_right else text.ljust(width)
        for text, width, is_right in zip(texts, widths, right, strict=True)
    ).rstrip()


def to_one_line(value: object) -> str:
    """Format a value on one line, without characters that control a terminal."""
    text = "-" if value is None else str(value)
    return "".join(letter if letter.isprintable() else "·" for letter in text)
