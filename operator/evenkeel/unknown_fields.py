"""
Finds unknown fields in a file, so that a misspelt field is not ignored.

In a cluster the API server finds unknown fields.
"""

import difflib
from collections.abc import Iterator
from typing import Any

from contract.kinds.parts import Part
from evenkeel import crds


def find_unknown_fields(value: Any, kind: type[Part], path: str) -> Iterator[str]:
    """List the path of each unknown field, with a similar known field if there is one."""
    yield from _find(value, crds.find_schema(kind), path)


def _find(value: Any, schema: crds.Schema, path: str) -> Iterator[str]:
    known = schema.get("properties", {})
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _find(each, schema.get("items", {}), f"{path}[{number}]")
    elif isinstance(value, dict) and known:
        for name, each in value.items():
            if name in known:
                yield from _find(each, known[name], f"{path}.{name}")
            else:
                meant = difflib.get_close_matches(str(name), known, 1)
                yield f"{path}.{name}" + (f"; {meant[0]} may be meant" if meant else "")
