"""
Whether two paths of sinks lead to the same place, as far as their names tell.

Links of this machine are followed; nothing else is looked at.
"""

import os
import re

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*):(//(?P<host>[^/]*))?(?P<path>.*)", re.DOTALL)
_SAME = {"s3": "s3a", "s3n": "s3a"}


def overlap(one: str, other: str) -> bool:
    """Whether one of two paths is the other, or lies in it, as far as names tell."""
    first, second = _normal(one), _normal(other)
    if first[:2] != second[:2]:
        return False
    common = os.path.commonpath((first[2], second[2]))
    return common in (first[2], second[2])


def _normal(path: str) -> tuple[str, str, str]:
    """Take a path apart: scheme, host, and the path without detours, as this machine has it."""
    found = _SCHEME.fullmatch(path)
    scheme = found["scheme"].lower() if found else "file"
    plain = re.sub("//+", "/", found["path"] if found else path)
    if found is None or scheme == "file":
        return "file", "", os.path.realpath(plain)
    host = (found["host"] or "").lower()
    return _SAME.get(scheme, scheme), host, os.path.normpath(f"/{plain.removeprefix('/')}")
