"""Tables for people, and JSON for programs, of the same rows."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def as_json(rows: Iterable[Row]) -> str:
    """Write a list of objects."""
    return json.dumps(list(rows), indent=2, default=str)


def as_json_line(row: Row) -> str:
    """Write one object on one line."""
    return json.dumps(row, default=str)


def as_table(columns: Sequence[str], rows: Iterable[Row]) -> str:
    """Align columns under their names: numbers to the right, all else to the left."""
    values = [[row[name] for name in columns] for row in rows]
    texts = [[one_line(value) for value in row] for row in values]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    right = [
        bool(column) and all(isinstance(value, int) for value in column)
        for column in zip(*values, strict=True)
    ] or [False] * len(columns)
    lines = [[name.upper().replace("_", " ") for name in columns], *texts]
    return "\n".join(
        "  ".join(
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def one_line(value: object) -> str:
    """Show a value in one line that no terminal mistakes for a command."""
    text = "-" if value is None else str(value)
    return "".join(letter if letter.isprintable() else "·" for letter in text)
