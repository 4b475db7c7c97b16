"""
What the API server was heard to hold: the newest of each object, and little of it.

News comes in any order, and old news after new: what this process has written itself it knows
before the watch tells.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from evenkeel import manifests
from evenkeel.cluster import pods
from evenkeel.cluster.pods import ZONE, Pod
from evenkeel.cluster.reports import ENTRY
from evenkeel.errors import ManifestError
from evenkeel.objects import DEFAULT_NAMESPACE, Group, Head, Key, Topic, head

log = logging.getLogger("evenkeel")
Body = Mapping[str, Any]
Value = TypeVar("Value")


class Shelf(Generic[Value]):
    """All objects of one kind."""

    def __init__(self, read: Callable[[Body], Value]) -> None:
        """Hold nothing yet."""
        self._read = read
        self._heads: dict[Key, Head] = {}
        self._by_namespace: dict[str, dict[Key, Value]] = defaultdict(dict)

    def get(self, key: Key) -> Value | None:
        """Find an object; None if there is none, or none that can be read."""
        return self._by_namespace.get(key.namespace, {}).get(key)

    def take(self, body: Body) -> bool:
        """Take up an object, unless something newer is known; whether it was taken."""
        found = head(body["metadata"])
        old = self._heads.get(found.key)
        if old is not None and not _is_newer(found, old):
            return False
        self._heads[found.key] = found
        try:
            self._by_namespace[found.key.namespace][found.key] = self._read(body)
        except ManifestError as error:  # a schema of another version has let it in
            log.error("%s; the object is left as it is until it is corrected", error)
            self._by_namespace[found.key.namespace].pop(found.key, None)
        return True

    def drop(self, key: Key, uid: str | None = None) -> None:
        """Forget an object; not if it was made again meanwhile."""
        found = self._heads.get(key)
        if found is not None and uid in (None, found.uid):
            del self._heads[key]
            self._by_namespace[key.namespace].pop(key, None)

    def is_behind(self, body: Body) -> bool:
        """Whether this is news."""
        found = head(body["metadata"])
        old = self._heads.get(found.key)
        return old is None or _is_newer(found, old)

    def known(self) -> set[Key]:
        """List all objects by key."""
        return set(self._heads)

    def all(self) -> Iterable[Value]:
        """List all objects."""
        return [value for found in self._by_namespace.values() for value in found.values()]

    def of(self, namespace: str) -> Iterable[Value]:
        """List the objects of a namespace."""
        return self._by_namespace.get(namespace, {}).values()


class Heard:
    """All that is known of a cluster."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.topics: Shelf[Topic] = Shelf(manifests.read_topic)
        self.groups: Shelf[Group] = Shelf(manifests.read_group)
        self.pods: Shelf[Pod] = Shelf(pods.read)
        self.reports: Shelf[str | None] = Shelf(_report)
        """What drivers say of themselves."""
        self.zones: Shelf[str | None] = Shelf(_zone)
        """Of nodes."""

    def zone(self, node: str) -> str | None:
        """Tell where a node is."""
        return self.zones.get(Key(DEFAULT_NAMESPACE, node))


def _report(body: Body) -> str | None:
    found: str | None = (body.get("data") or {}).get(ENTRY)
    return found


def _zone(body: Body) -> str | None:
    found: str | None = (body["metadata"].get("labels") or {}).get(ZONE)
    return found


def _is_newer(one: Head, other: Head) -> bool:
    if one.uid != other.uid:
        return one.created >= other.created
    return _number(one) > _number(other)


def _number(found: Head) -> int:
    """Read the version. By contract it is any text; API servers on etcd write numbers that grow."""
    return int(found.version) if found.version.isdigit() else 0
