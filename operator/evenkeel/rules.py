"""
Finds errors in objects of a file, other than wrong types.

An API server would find the same errors: broken CEL rules of the schema, list entries with the same
key, and invalid times. Schema and defaults are those of `crds/`. Rules about changes are left out,
because a file has no old version.
"""

import functools
from collections.abc import Callable
from datetime import datetime
from typing import Any

from contract.kinds.parts import Part
from evenkeel import crds
from evenkeel.crds import Schema

OF_A_CHANGE = "oldSelf"
Holds = Callable[[Any], bool]


def find_faults(spec: object, kind: type[Part], path: str) -> list[str]:
    """List the path of each invalid value, with the reason."""
    found: list[str] = []
    _fill(spec, crds.find_schema(kind), path, found)
    return found


def _fill(value: object, schema: Schema, path: str, found: list[str]) -> object:
    """Fill in a value's defaults. Add faults of inner values to `found`, then the value's own."""
    if isinstance(value, dict) and "properties" in schema:
        value = _add_defaults(value, schema["properties"], path, found)
    elif isinstance(value, dict) and "additionalProperties" in schema:
        inner = schema["additionalProperties"]
        value = {name: _fill(each, inner, f"{path}.{name}", found) for name, each in value.items()}
    elif isinstance(value, list) and "items" in schema:
        value = [
            _fill(each, schema["items"], f"{path}[{number}]", found)
            for number, each in enumerate(value)
        ]
        _note_duplicates(value, schema.get("x-kubernetes-list-map-keys", ()), path, found)
    elif schema.get("format") == "date-time" and not _is_moment(value):
        found.append(f"{path}: {value!r} is not a date and time")
    found += [
        f"{path}: {rule['message']}"
        for rule in schema.get("x-kubernetes-validations", ())
        if OF_A_CHANGE not in rule["rule"] and not _compile_rule(rule["rule"])(value)
    ]
    return value


def _add_defaults(
    value: dict[str, Any], fields: Schema, path: str, found: list[str]
) -> dict[str, object]:
    """Fill in defaults. Null counts as not set, as for the API server."""
    said = {name: each for name, each in value.items() if each is not None}
    defaults = {name: each["default"] for name, each in fields.items() if "default" in each}
    return {
        name: _fill(each, fields.get(name, {}), f"{path}.{name}", found)
        for name, each in (defaults | said).items()
    }


def _note_duplicates(value: list[Any], keys: list[str], path: str, found: list[str]) -> None:
    seen = set()
    for number, each in enumerate(value if keys else ()):
        who = tuple(str(each.get(key)) for key in keys)
        if who in seen:
            shown = ", ".join(f"{key} {each.get(key)}" for key in keys)
            found.append(f"{path}[{number}]: there are two entries with {shown}")
        seen.add(who)


def _is_moment(value: object) -> bool:
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        return False
    return True


@functools.cache
def _compile_rule(rule: str) -> Holds:
    from celpy.adapter import (
        json_to_cel,
    )  # imported here, because only commands that read files need it
    from celpy.evaluation import CELEvalError

    environment = _make_environment()
    program = environment.program(environment.compile(rule))

    def holds(value: Any) -> bool:
        try:
            return bool(program.evaluate({"self": json_to_cel(value)}))
        except CELEvalError:  # for example, a field is missing
            return False

    return holds


@functools.cache
def _make_environment() -> Any:
    import celpy

    return celpy.Environment()
