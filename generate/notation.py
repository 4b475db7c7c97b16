"""
What the comments in values.yaml call a value, and the JSON schema for it.

A type is a word (`string`), a limit (`integer >= 0`), a collection (`list of name`) or a choice
(`digest or empty`, `Always or Never`). In a choice, words with a capital stand for themselves.
"""

import re
from typing import Any

Schema = dict[str, Any]
_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_PATTERNS = {
    "digest": "sha256:[0-9a-f]{64}",
    "duration": "([0-9]+(ms|s|m|h))+",
    "image": "[a-z0-9]+([._/:-]+[a-z0-9]+)*",
    "name": f"{_LABEL}([.]{_LABEL})*",
    "namespace": _LABEL,
    "percent": "(100|[1-9]?[0-9])%",
    "short name": _LABEL,
    "tag": "[A-Za-z0-9_][A-Za-z0-9._-]*",
    "url": "https?://[^ ]+",
}
_MOST_LETTERS = {"namespace": 63, "short name": 52, "tag": 128}
_PLAIN = ("string", "boolean", "integer", "number", "object")
_LIMITS = {">=": "minimum", ">": "exclusiveMinimum"}
_LIMITED = re.compile(r"(integer|number) (>=|>) (\d+)")


class NotationError(Exception):
    """A comment in values.yaml is not as it should be."""


def schema(text: str) -> Schema:
    """Read a type."""
    choices = text.split(" or ")
    if len(choices) == 2 and choices[0] in _PATTERNS and choices[1] == "empty":
        return _text(choices[0], f"^({_PATTERNS[choices[0]]})?$")
    if len(choices) > 1 and all(re.fullmatch("[A-Z][A-Za-z]+", each) for each in choices):
        return {"type": "string", "enum": choices}
    if len(choices) > 1:
        return {"anyOf": [schema(each) for each in choices]}
    return _one(text)


def _one(text: str) -> Schema:
    collection, _, inner = text.partition(" of ")
    if collection == "list" and inner:
        once = {} if inner == "object" else {"uniqueItems": True}
        return {"type": "array", "items": _one(inner), **once}
    if collection == "map" and inner:
        return {"type": "object", "additionalProperties": _one(inner)}
    if limited := _LIMITED.fullmatch(text):
        kind, sign, number = limited.groups()
        return {"type": kind, _LIMITS[sign]: int(number)}
    if text == "port":
        return {"type": "integer", "minimum": 1, "maximum": 65535}
    if text in _PATTERNS:
        return _text(text, f"^{_PATTERNS[text]}$")
    if text in _PLAIN:
        return {"type": text}
    raise NotationError(f"there is no type {text!r}")


def _text(kind: str, pattern: str) -> Schema:
    limit = {"maxLength": _MOST_LETTERS[kind]} if kind in _MOST_LETTERS else {}
    return {"type": "string", "pattern": pattern, **limit}
