"""
Compares the paths of two sinks by their names.

Links on this machine are followed; nothing else is read.
"""

import os
import re

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*):(//(?P<host>[^/]*))?(?P<path>.*)", re.DOTALL)
_SAME = {"s3": "s3a", "s3n": "s3a"}


def overlap(one: str, other: str) -> bool:
    """Whether two paths are the same, or one is inside the other, as far as names show."""
    first, second = _normalize(one), _normalize(other)
    if first[:2] != second[:2]:
        return False
    common = os.path.commonpath((first[2], second[2]))
    return common in (first[2], second[2])


def _normalize(path: str) -> tuple[str, str, str]:
    """Split a path into scheme, host and normalized path."""
    found = _SCHEME.fullmatch(path)
    scheme = found["scheme"].lower() if found else "file"
    plain = re.sub("//+", "/", found["path"] if found else path)
    if found is None or scheme == "file":
        return "file", "", os.path.realpath(plain)
    host = (found["host"] or "").lower()
    return _SAME.get(scheme, scheme), host, os.path.normpath(f"/{plain.removeprefix('/')}")
