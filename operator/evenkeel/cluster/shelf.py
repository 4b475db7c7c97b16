"""
The newest of each object of one kind.

News comes in any order, and old news after new: what this process has written itself it knows
before the watch tells.
"""

import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from evenkeel.errors import ManifestError
from evenkeel.objects import Head, Key, head

log = logging.getLogger("evenkeel")
Body = Mapping[str, Any]
Value = TypeVar("Value")


class _Version(NamedTuple):
    """What tells news from old news; there are many of these."""

    uid: str
    created: str
    number: int


class Shelf(Generic[Value]):
    """All objects of one kind."""

    def __init__(
        self,
        read: Callable[[Body], Value],
        marks: Callable[[Value], Iterable[Hashable]] = lambda value: (),
    ) -> None:
        """Hold nothing yet. Objects can be found by their marks."""
        self._read = read
        self._marks = marks
        self._versions: dict[Key, _Version] = {}
        self._values: dict[Key, Value] = {}
        self._marked: dict[tuple[str, Hashable], set[Key]] = {}
        """By namespace and mark."""

    def get(self, key: Key) -> Value | None:
        """Find an object; None if there is none, or none that can be read."""
        return self._values.get(key)

    def take(self, body: Body) -> bool:
        """Take up an object, unless something newer is known; whether it was taken."""
        found = head(body["metadata"])
        if not self.is_behind(found):
            return False
        self._versions[found.key] = _version(found)
        self._clear(found.key)
        try:
            self._put(found.key, self._read(body))
        except ManifestError as error:  # a schema of another version has let it in
            log.error("%s; the object is left as it is until it is corrected", error)
        return True

    def drop(self, key: Key, uid: str | None = None) -> None:
        """Forget an object; not if it was made again meanwhile."""
        found = self._versions.get(key)
        if found is not None and uid in (None, found.uid):
            del self._versions[key]
            self._clear(key)

    def is_behind(self, found: Head) -> bool:
        """Whether this is news."""
        old = self._versions.get(found.key)
        return old is None or _is_newer(_version(found), old)

    def known(self) -> set[Key]:
        """List all objects by key."""
        return set(self._versions)

    def uid(self, key: Key) -> str | None:
        """Tell an object of this name from its forerunners; None if there is none."""
        found = self._versions.get(key)
        return None if found is None else found.uid

    def uids(self) -> dict[Key, str]:
        """List all objects by key, each with its uid."""
        return {key: found.uid for key, found in self._versions.items()}

    def all(self) -> Iterable[Value]:
        """List all objects."""
        return list(self._values.values())

    def bearing(self, namespace: str, marks: Collection[Hashable]) -> list[Value]:
        """List the objects of a namespace that bear all of these marks, by name."""
        found = [self._marked.get((namespace, mark), set[Key]()) for mark in marks]
        fewest = min(found, key=len)
        return [self._values[key] for key in sorted(fewest.intersection(*found))]

    def _put(self, key: Key, value: Value) -> None:
        self._values[key] = value
        for mark in self._marks(value):
            self._marked.setdefault((key.namespace, mark), set()).add(key)

    def _clear(self, key: Key) -> None:
        value = self._values.pop(key, None)
        for mark in self._marks(value) if value is not None else ():
            bearing = self._marked[key.namespace, mark]
            bearing.discard(key)
            if not bearing:
                del self._marked[key.namespace, mark]


def _version(found: Head) -> _Version:
    """Read a version. By contract it is any text; API servers on etcd write numbers that grow."""
    number = int(found.version) if found.version.isdigit() else 0
    return _Version(found.uid, found.created, number)


def _is_newer(one: _Version, other: _Version) -> bool:
    if one.uid != other.uid:
        return one.created >= other.created
    return one.number > other.number
