"""
Caches the newest version of each object of one kind.

Versions may arrive in any order, because this process caches its own writes before the watch
reports them.
"""

import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from evenkeel.errors import ManifestError
from evenkeel.objects import Head, Key, read_head

log = logging.getLogger("evenkeel")
Body = Mapping[str, Any]
Value = TypeVar("Value")


class _Version(NamedTuple):
    """The fields that order the versions of an object. Only these are kept, to save memory."""

    uid: str
    created: str
    number: int


@dataclass(slots=True)
class _Entry(Generic[Value]):
    """The newest known version of one object."""

    version: _Version
    value: Value | None = None
    """None if the object cannot be read."""


class ObjectCache(Generic[Value]):
    """All objects of one kind."""

    def __init__(
        self,
        read: Callable[[Body], Value],
        marks: Callable[[Value], Iterable[Hashable]] = lambda value: (),
    ) -> None:
        """Begin empty. `marks` returns values by which an object can be found later."""
        self._read = read
        self._marks = marks
        self._entries: dict[Key, _Entry[Value]] = {}
        self._marked: dict[tuple[str, Hashable], set[Key]] = {}
        """Keys by namespace and mark."""

    def get(self, key: Key) -> Value | None:
        """Find an object; None if it does not exist or cannot be read."""
        found = self._entries.get(key)
        return None if found is None else found.value

    def take(self, body: Body) -> bool:
        """Cache an object, unless a newer version is cached. Return whether it was cached."""
        found = read_head(body["metadata"])
        if not self.is_behind(found):
            return False
        self._remove(found.key)
        entry = self._entries[found.key] = _Entry[Value](_read_version(found))
        try:
            self._fill(found.key, entry, self._read(body))
        except ManifestError as error:  # it was stored under another version of the schema
            log.error("%s; the object is ignored until it is corrected", error)
        return True

    def drop(self, key: Key, uid: str | None = None) -> None:
        """Drop an object, unless it was created again in the meantime."""
        found = self._entries.get(key)
        if found is not None and uid in (None, found.version.uid):
            self._remove(key)

    def is_behind(self, found: Head) -> bool:
        """Whether the cached version is older than this one."""
        old = self._entries.get(found.key)
        return old is None or _is_newer(_read_version(found), old.version)

    def list_keys(self) -> set[Key]:
        """List the keys of all objects."""
        return set(self._entries)

    def find_uid(self, key: Key) -> str | None:
        """Find the uid of an object; None if there is none."""
        found = self._entries.get(key)
        return None if found is None else found.version.uid

    def list_uids(self) -> dict[Key, str]:
        """List the uids of all objects by key."""
        return {key: found.version.uid for key, found in self._entries.items()}

    def list_values(self) -> Iterable[Value]:
        """List all objects."""
        return [each.value for each in self._entries.values() if each.value is not None]

    def find_by_marks(self, namespace: str, marks: Collection[Hashable]) -> list[Value]:
        """List the objects of a namespace that have all these marks, by name."""
        found = [self._marked.get((namespace, mark), set[Key]()) for mark in marks]
        fewest = min(found, key=len)
        values = (self.get(key) for key in sorted(fewest.intersection(*found)))
        return [value for value in values if value is not None]

    def _fill(self, key: Key, entry: _Entry[Value], value: Value) -> None:
        entry.value = value
        for mark in self._marks(value):
            self._marked.setdefault((key.namespace, mark), set()).add(key)

    def _remove(self, key: Key) -> None:
        """Remove an entry, and everything that is indexed under its key."""
        entry = self._entries.pop(key, None)
        if entry is None or entry.value is None:
            return
        for mark in self._marks(entry.value):
            bearing = self._marked[key.namespace, mark]
            bearing.discard(key)
            if not bearing:
                del self._marked[key.namespace, mark]


def _read_version(found: Head) -> _Version:
    """Read a version. API servers with etcd use growing numbers, though any text is valid."""
    number = int(found.version) if found.version.isdigit() else 0
    return _Version(found.uid, found.created, number)


def _is_newer(one: _Version, other: _Version) -> bool:
    if one.uid != other.uid:
        return one.created >= other.created
    return one.number > other.number
