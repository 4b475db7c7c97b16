"""The cached objects of a cluster, reduced to what the operator needs."""

from dataclasses import dataclass

from contract.kinds.groups import Assigned
from contract.names import GROUP_LABEL, REPORT
from evenkeel import manifests, planning
from evenkeel.cluster import assignment_slices
from evenkeel.cluster.watch import pods
from evenkeel.cluster.watch.object_cache import Body, ObjectCache
from evenkeel.cluster.watch.pods import ZONE, Pod
from evenkeel.objects import DEFAULT_NAMESPACE, ConsumerGroup, Key, Topic, read_head


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """One of the operator's ConfigMaps: a report or a slice."""

    key: Key
    group: str
    """The name of the group to which it belongs."""
    report: str | None
    """The driver's report."""
    slice: list[Assigned] | None
    """A part of the group's assignments."""


@dataclass(frozen=True, slots=True)
class _WholeGroup:
    """A group whose status names slices: as it was read, and with the assignments of the slices."""

    read: ConsumerGroup
    whole: ConsumerGroup


class ClusterCache:
    """All cached objects of a cluster."""

    def __init__(self) -> None:
        """Begin empty."""
        self.topics: ObjectCache[Topic] = ObjectCache(manifests.read_topic)
        self.groups: ObjectCache[ConsumerGroup] = ObjectCache(manifests.read_group)
        self.pods: ObjectCache[Pod] = ObjectCache(pods.read, lambda pod: pod.labels.items())
        self.config_maps: ObjectCache[ConfigMap] = ObjectCache(
            _read_config_map, lambda each: (each.group,)
        )
        self.zones: ObjectCache[str | None] = ObjectCache(_read_zone)
        """The zone of each node."""
        self._whole: dict[Key, _WholeGroup] = {}

    def find_group(self, key: Key) -> ConsumerGroup | None:
        """Find a group with the assignments of its slices, if all slices are cached."""
        found = self.groups.get(key)
        return None if found is None else self._join_slices(found)

    def list_groups(self) -> list[ConsumerGroup]:
        """List all groups, each as `find_group` returns it."""
        return [self._join_slices(each) for each in self.groups.list_values()]

    def find_report(self, driver: Key) -> str | None:
        """Find the report of a driver."""
        found = self.config_maps.get(driver)
        return found.report if found else None

    def list_slices(self, group: Key) -> list[Key]:
        """List all slices of a group, including old ones."""
        found = self.config_maps.find_by_marks(group.namespace, [group.name])
        return [each.key for each in found if each.slice is not None]

    def find_zone(self, node: str) -> str | None:
        """Find the zone of a node."""
        return self.zones.get(Key(DEFAULT_NAMESPACE, node))

    def forget(self, group: Key) -> None:
        """Drop the state of a deleted group."""
        self._whole.pop(group, None)

    def _join_slices(self, found: ConsumerGroup) -> ConsumerGroup:
        if not found.status.slices:
            return found
        key = found.head.key
        known = self._whole.get(key)
        if known is None or known.read is not found or not planning.is_whole(known.whole.status):
            known = _WholeGroup(found, assignment_slices.join_slices(found, self._find_slice))
            self._whole[key] = known
        return known.whole

    def _find_slice(self, key: Key) -> list[Assigned] | None:
        found = self.config_maps.get(key)
        return found.slice if found else None


def _read_config_map(body: Body) -> ConfigMap:
    group = (body["metadata"].get("labels") or {}).get(GROUP_LABEL, "")
    report = (body.get("data") or {}).get(REPORT)
    return ConfigMap(read_head(body["metadata"]).key, group, report, assignment_slices.read(body))


def _read_zone(body: Body) -> str | None:
    found: str | None = (body["metadata"].get("labels") or {}).get(ZONE)
    return found
