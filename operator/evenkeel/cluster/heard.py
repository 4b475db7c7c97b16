"""
What the API server was heard to hold: the newest of each object, and little of it.

News comes in any order, and old news after new: what this process has written itself it knows
before the watch tells.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from evenkeel import manifests, planning
from evenkeel.api.groups import Assigned
from evenkeel.cluster import pods, slices
from evenkeel.cluster.manifest import names
from evenkeel.cluster.pods import ZONE, Pod
from evenkeel.cluster.reports import ENTRY
from evenkeel.errors import ManifestError
from evenkeel.objects import DEFAULT_NAMESPACE, Group, Head, Key, Topic, head

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

    def __init__(self, read: Callable[[Body], Value]) -> None:
        """Hold nothing yet."""
        self._read = read
        self._versions: dict[Key, _Version] = {}
        self._by_namespace: dict[str, dict[Key, Value]] = defaultdict(dict)
        self._revisions: dict[str, int] = defaultdict(int)

    def revision(self, namespace: str) -> int:
        """Tell one state of a namespace's objects from another."""
        return self._revisions[namespace]

    def get(self, key: Key) -> Value | None:
        """Find an object; None if there is none, or none that can be read."""
        return self._by_namespace.get(key.namespace, {}).get(key)

    def take(self, body: Body) -> bool:
        """Take up an object, unless something newer is known; whether it was taken."""
        found = head(body["metadata"])
        if not self.is_behind(found):
            return False
        self._versions[found.key] = _version(found)
        self._revisions[found.key.namespace] += 1
        try:
            self._by_namespace[found.key.namespace][found.key] = self._read(body)
        except ManifestError as error:  # a schema of another version has let it in
            log.error("%s; the object is left as it is until it is corrected", error)
            self._by_namespace[found.key.namespace].pop(found.key, None)
        return True

    def drop(self, key: Key, uid: str | None = None) -> None:
        """Forget an object; not if it was made again meanwhile."""
        found = self._versions.get(key)
        if found is not None and uid in (None, found.uid):
            del self._versions[key]
            self._revisions[key.namespace] += 1
            self._by_namespace[key.namespace].pop(key, None)

    def is_behind(self, found: Head) -> bool:
        """Whether this is news."""
        old = self._versions.get(found.key)
        return old is None or _is_newer(_version(found), old)

    def known(self) -> set[Key]:
        """List all objects by key."""
        return set(self._versions)

    def all(self) -> Iterable[Value]:
        """List all objects."""
        return [value for found in self._by_namespace.values() for value in found.values()]

    def of(self, namespace: str) -> Iterable[Value]:
        """List the objects of a namespace."""
        return self._by_namespace.get(namespace, {}).values()

    def items(self, namespace: str) -> Iterable[tuple[Key, Value]]:
        """List the objects of a namespace by key."""
        return self._by_namespace.get(namespace, {}).items()


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """What one of our ConfigMaps holds: either of these."""

    group: str
    """Whose it is."""
    report: str | None
    """What the driver says of itself."""
    slice: list[Assigned] | None
    """A part of the group's assignments."""


class Heard:
    """All that is known of a cluster."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.topics: Shelf[Topic] = Shelf(manifests.read_topic)
        self.groups: Shelf[Group] = Shelf(manifests.read_group)
        self.pods: Shelf[Pod] = Shelf(pods.read)
        self.config_maps: Shelf[ConfigMap] = Shelf(_config_map)
        self.zones: Shelf[str | None] = Shelf(_zone)
        """Of nodes."""
        self._whole: dict[Key, tuple[Group, Group]] = {}
        """Groups whose status names slices, as they were heard and with their slices."""

    def group(self, key: Key) -> Group | None:
        """Find a group; its assignments are all there, or status.slices tells that some are not."""
        found = self.groups.get(key)
        return None if found is None else self._with_slices(found)

    def all_groups(self) -> list[Group]:
        """List all groups, as `group` finds them."""
        return [self._with_slices(each) for each in self.groups.all()]

    def report(self, driver: Key) -> str | None:
        """Tell what a driver says of itself."""
        found = self.config_maps.get(driver)
        return found.report if found else None

    def slices_of(self, group: Key) -> list[Key]:
        """List all slices of a group, old ones too."""
        found = self.config_maps.items(group.namespace)
        return [key for key, each in found if each.group == group.name and each.slice is not None]

    def revision(self, namespace: str) -> tuple[int, int]:
        """Tell one state of a namespace's pods, and of all nodes, from another."""
        return self.pods.revision(namespace), self.zones.revision(DEFAULT_NAMESPACE)

    def zone(self, node: str) -> str | None:
        """Tell where a node is."""
        return self.zones.get(Key(DEFAULT_NAMESPACE, node))

    def forget(self, group: Key) -> None:
        """Keep nothing of a group that is gone."""
        self._whole.pop(group, None)

    def _with_slices(self, found: Group) -> Group:
        if not found.status.slices:
            return found
        key = found.head.key
        known = self._whole.get(key)
        if known is None or known[0] is not found or not planning.is_whole(known[1].status):
            known = self._whole[key] = (found, slices.whole(found, self._slice))
        return known[1]

    def _slice(self, key: Key) -> list[Assigned] | None:
        found = self.config_maps.get(key)
        return found.slice if found else None


def _config_map(body: Body) -> ConfigMap:
    group = (body["metadata"].get("labels") or {}).get(names.GROUP_LABEL, "")
    return ConfigMap(group, (body.get("data") or {}).get(ENTRY), slices.read(body))


def _zone(body: Body) -> str | None:
    found: str | None = (body["metadata"].get("labels") or {}).get(ZONE)
    return found


def _version(found: Head) -> _Version:
    """Read a version. By contract it is any text; API servers on etcd write numbers that grow."""
    number = int(found.version) if found.version.isdigit() else 0
    return _Version(found.uid, found.created, number)


def _is_newer(one: _Version, other: _Version) -> bool:
    if one.uid != other.uid:
        return one.created >= other.created
    return one.number > other.number
