"""
Parses the notation of types in the comments of values.yaml, and makes JSON schemas from it.

A type is a word (`string`), a word with limits (`integer >= 0 and <= 9`), a collection (`list of
name`) or a choice (`digest or empty`, `Always or Never`). In a choice, a word that begins with a
capital letter is a literal value.
"""

import re
from typing import Any

Schema = dict[str, Any]
_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_NAME = f"{_LABEL}([.]{_LABEL})*"
_WORD = "[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_PATTERNS = {
    "alert label": "[A-Za-z_][A-Za-z0-9_]*",
    "digest": "sha256:[0-9a-f]{64}",
    "duration": "[1-9][0-9]{0,5}(ms|s|m|h)",
    "image": "[a-z0-9]+([._/:-]+[a-z0-9]+)*",
    "label key": f"({_NAME}/)?{_WORD}",
    "label value": f"({_WORD})?",
    "name": _NAME,
    "namespace": _LABEL,
    "percent": "(100|[1-9][0-9]?)%",
    "registry": "[A-Za-z0-9]+([.-][A-Za-z0-9]+)*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*/?",
    "server pattern": "[][A-Za-z0-9.*:/_-]+:([0-9]{1,5}|[*])",
    "service name": "[a-z]([a-z0-9-]*[a-z0-9])?",
    "short name": _LABEL,
    "tag": "[A-Za-z0-9_][A-Za-z0-9._-]*",
    "url": "https?://[!-~]+",
}
_MOST_LETTERS = {
    "label key": 253 + 1 + 63,
    "name": 253,
    "namespace": 63,
    "registry": 253,
    "service name": 52,
    "short name": 52,
    "tag": 128,
}
_MAPS = {
    "alert labels": ("alert label", "string"),
    "annotations": ("label key", "string"),
    "labels": ("label key", "label value"),
}
"""The types of a map's keys and values."""
_PLAIN = ("string", "boolean", "integer", "number", "object")
_LIMITS = {">=": "minimum", ">": "exclusiveMinimum"}
_LIMITED = re.compile(r"(integer|number) (>=|>) (\d+)(?: and <= (\d+))?")
_PROBE = {
    "initialDelaySeconds": "integer >= 0",
    "periodSeconds": "integer >= 1",
    "timeoutSeconds": "integer >= 1",
    "successThreshold": "integer >= 1",
    "failureThreshold": "integer >= 1",
    "terminationGracePeriodSeconds": "integer >= 1",
}


class NotationError(Exception):
    """A comment in values.yaml is not valid."""


def schema(text: str) -> Schema:
    """Convert a type to its JSON schema."""
    choices = text.split(" or ")
    if len(choices) == 2 and choices[0] in _PATTERNS and choices[1] == "empty":
        return _format_text(choices[0], f"^({_PATTERNS[choices[0]]})?$")
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
    if limited := _LIMITED.fullmatch(text):
        kind, sign, least, most = limited.groups()
        upper = {"maximum": int(most)} if most else {}
        return {"type": kind, _LIMITS[sign]: int(least), **upper}
    if text == "port":
        return {"type": "integer", "minimum": 1, "maximum": 65535}
    if text == "probe":
        found = {name: _one(f"{kind} and <= {2**31 - 1}") for name, kind in _PROBE.items()}
        return {"type": "object", "additionalProperties": False, "properties": found}
    if text in _MAPS:
        key, each = _MAPS[text]
        # With propertyNames, helm's errors would name a wrong path.
        found = {f"^{_PATTERNS[key]}$": _one(each)}
        return {"type": "object", "additionalProperties": False, "patternProperties": found}
    if text in _PATTERNS:
        return _format_text(text, f"^{_PATTERNS[text]}$")
    if text in _PLAIN:
        return {"type": text}
    raise NotationError(f"there is no type {text!r}")


def _format_text(kind: str, pattern: str) -> Schema:
    limit = {"maxLength": _MOST_LETTERS[kind]} if kind in _MOST_LETTERS else {}
    return {"type": "string", "pattern": pattern, **limit}
