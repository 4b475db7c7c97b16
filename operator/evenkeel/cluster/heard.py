"""What the API server was heard to hold, and little of it."""

from dataclasses import dataclass

from contract.kinds.groups import Assigned
from contract.names import GROUP_LABEL, REPORT
from evenkeel import manifests, planning
from evenkeel.cluster import pods, slices
from evenkeel.cluster.pods import ZONE, Pod
from evenkeel.cluster.shelf import Body, Shelf
from evenkeel.objects import DEFAULT_NAMESPACE, ConsumerGroup, Key, Topic, head


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """What one of our ConfigMaps holds: a report or a slice."""

    key: Key
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
        self.groups: Shelf[ConsumerGroup] = Shelf(manifests.read_group)
        self.pods: Shelf[Pod] = Shelf(pods.read, lambda pod: pod.labels.items())
        self.config_maps: Shelf[ConfigMap] = Shelf(_config_map, lambda each: (each.group,))
        self.zones: Shelf[str | None] = Shelf(_zone)
        """Of nodes."""
        self._whole: dict[Key, tuple[ConsumerGroup, ConsumerGroup]] = {}
        """Groups whose status names slices, as they were heard and with their slices."""

    def group(self, key: Key) -> ConsumerGroup | None:
        """Find a group; its assignments are all there, or status.slices tells that some are not."""
        found = self.groups.get(key)
        return None if found is None else self._with_slices(found)

    def all_groups(self) -> list[ConsumerGroup]:
        """List all groups, as `group` finds them."""
        return [self._with_slices(each) for each in self.groups.all()]

    def report(self, driver: Key) -> str | None:
        """Tell what a driver says of itself."""
        found = self.config_maps.get(driver)
        return found.report if found else None

    def slices_of(self, group: Key) -> list[Key]:
        """List all slices of a group, old ones too."""
        found = self.config_maps.bearing(group.namespace, [group.name])
        return [each.key for each in found if each.slice is not None]

    def zone(self, node: str) -> str | None:
        """Tell where a node is."""
        return self.zones.get(Key(DEFAULT_NAMESPACE, node))

    def forget(self, group: Key) -> None:
        """Keep nothing of a group that is gone."""
        self._whole.pop(group, None)

    def _with_slices(self, found: ConsumerGroup) -> ConsumerGroup:
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
    group = (body["metadata"].get("labels") or {}).get(GROUP_LABEL, "")
    report = (body.get("data") or {}).get(REPORT)
    return ConfigMap(head(body["metadata"]).key, group, report, slices.read(body))


def _zone(body: Body) -> str | None:
    found: str | None = (body["metadata"].get("labels") or {}).get(ZONE)
    return found
