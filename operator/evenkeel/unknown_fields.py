"""
Fields that no kind has, in a file: a word that was misspelt must not count as nothing said.

In a cluster the API server sees to that.
"""

import difflib
from collections.abc import Iterator
from typing import Any

from contract.kinds.parts import Part
from evenkeel import crds


def found(value: Any, kind: type[Part], path: str) -> Iterator[str]:
    """Say of each field that is not of this kind where it is, and what may be meant."""
    yield from _found(value, crds.structural_of(kind), path)


def _found(value: Any, schema: crds.Schema, path: str) -> Iterator[str]:
    known = schema.get("properties", {})
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _found(each, schema.get("items", {}), f"{path}[{number}]")
    elif isinstance(value, dict) and known:
        for name, each in value.items():
            if name in known:
                yield from _found(each, known[name], f"{path}.{name}")
            else:
                meant = difflib.get_close_matches(str(name), known, 1)
                yield f"{path}.{name}" + (f"; {meant[0]} may be meant" if meant else "")
