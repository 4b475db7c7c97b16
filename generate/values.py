"""
Generates the chart's JSON schema and the table in its README.md from the comments in values.yaml.

The comment above a value describes the value, and ends with its type in brackets. Booleans need no
type. A mapping without a type is a section, and each value in the section has a comment.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from generate import notation
from generate.notation import NotationError, Schema

CHART = Path("charts", "evenkeel")
BEGIN, END = "<!-- made from values.yaml by `make generate` -->", "<!-- end of what is made -->"
_TYPED = re.compile(r"(.*?)\s*\[([^\[\]]+)\]", re.DOTALL)
_GLOBAL: Schema = {
    "type": "object",
    "description": "Values that a parent chart passes to all its charts; not used here.",
}


@dataclass(frozen=True)
class Value:
    """A value, or a section of values."""

    path: tuple[str, ...]
    text: str
    type: str
    """The type in the notation of values.yaml; empty for a section."""
    default: Any
    inner: Sequence["Value"]

    @property
    def name(self) -> str:
        """The path of the value, as for helm's --set."""
        return ".".join(self.path)


def write(root: Path) -> None:
    """Write the schema, and the table between its marks."""
    folder = root / CHART
    values = read((folder / "values.yaml").read_text("utf-8"))
    (folder / "values.schema.json").write_text(schema(values), encoding="utf-8")
    readme = folder / "README.md"
    readme.write_text(insert_table(readme.read_text("utf-8"), values), encoding="utf-8")


def read(text: str) -> list[Value]:
    """Read all values with their comments."""
    whole = yaml.compose(text, yaml.SafeLoader)
    assert isinstance(whole, yaml.MappingNode)
    return list(_read(whole, text.splitlines(), ()))


def _read(section: yaml.MappingNode, lines: Sequence[str], at: tuple[str, ...]) -> Iterator[Value]:
    for key, node in section.value:
        path = (*at, key.value)
        text, kind = _read_type(" ".join(_comment(lines, key.start_mark.line)))
        if not text:
            raise NotationError(f"{'.'.join(path)}: there is no comment above it")
        default = yaml.safe_load(yaml.serialize(node))
        if not kind and isinstance(default, bool):
            kind = "boolean"
        if not kind and not isinstance(default, dict):
            raise NotationError(f"{'.'.join(path)}: its comment does not end with a type in []")
        inner = [] if kind else list(_read(node, lines, path))
        yield Value(path, text, kind, default, inner)


def _comment(lines: Sequence[str], line: int) -> list[str]:
    """Collect the comment that ends above a line."""
    found: list[str] = []
    while line > 0 and lines[line - 1].lstrip().startswith("# "):
        line -= 1
        found.insert(0, lines[line].lstrip().removeprefix("# "))
    return found


def _read_type(comment: str) -> tuple[str, str]:
    found = _TYPED.fullmatch(comment)
    return (found[1], found[2]) if found else (comment, "")


def schema(values: Sequence[Value]) -> str:
    """Write the JSON schema, in draft 7, which helm uses."""
    found = _section("Values of the chart evenkeel.", values)
    found["properties"]["global"] = _GLOBAL
    head = {"$schema": "http://json-schema.org/draft-07/schema#"}
    return json.dumps(head | found, indent=2) + "\n"


def _section(text: str, values: Sequence[Value]) -> Schema:
    required = [value.path[-1] for value in values if not _may_be_missing(value)]
    return {
        "type": "object",
        "description": text,
        "additionalProperties": False,
        **({"required": required} if required else {}),
        "properties": {value.path[-1]: _schema(value) for value in values},
    }


def _schema(value: Value) -> Schema:
    if not value.type:
        return _section(value.text, value.inner)
    beside = {"description": value.text, "default": value.default}
    return notation.schema(value.type) | beside


def _may_be_missing(value: Value) -> bool:
    """Whether the value may be null. In helm, null removes a value, which then counts as empty."""
    return bool(value.type) and isinstance(value.default, (dict, list))


def insert_table(readme: str, values: Sequence[Value]) -> str:
    """Put the table of all values between the marks."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        raise NotationError(f"README.md lacks the lines {BEGIN} and {END}")
    rows = ["", "| value | |", "|---|---|", *_make_rows(values), ""]
    return "\n".join([before + BEGIN, *rows, END + after])


def _make_rows(values: Sequence[Value]) -> Iterator[str]:
    for value in values:
        if value.type:
            default = json.dumps(value.default)
            yield f"| `{value.name}` | {value.text}<br>*{value.type}*; default `{default}` |"
        else:
            yield f"| **`{value.name}`** | {value.text} |"
            yield from _make_rows(value.inner)
