"""The operator: it caches all watched objects, and reconciles them while it leads."""

from contract.names import GROUP_LABEL
from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_client import Api
from evenkeel.cluster.drivers import restart_turns
from evenkeel.cluster.watch.cluster_cache import ClusterCache
from evenkeel.cluster.watch.pod_selectors import Labels, PodSelectors
from evenkeel.cluster.watch.scopes import WatchedKind
from evenkeel.cluster.world import ClusterWorld
from evenkeel.control.loop import Loop
from evenkeel.objects import Key


class Operator:
    """The cache of watched objects, and the control loop while this process leads."""

    def __init__(
        self,
        api: Api,
        image: str,
        *,
        sees_nodes: bool,
        restarts_at_once: int = restart_turns.AT_ONCE,
    ) -> None:
        """
        Watch nothing yet.

        `image` is the image of jobs that name none. Zones are read from nodes, which can be watched
        only if all namespaces are.
        """
        self.cache = ClusterCache()
        self.world = ClusterWorld(api, self.cache, image, restarts_at_once)
        self.world.topic_written = self._topic_changed
        self.world.group_written = self._group_changed
        self.loop: Loop | None = None
        self.kinds = [
            WatchedKind(paths.TOPICS, self.cache.topics, self._topic_changed),
            WatchedKind(paths.GROUPS, self.cache.groups, self._group_changed),
            WatchedKind(paths.PODS, self.cache.pods, self._pod_changed),
            WatchedKind(
                paths.CONFIG_MAPS,
                self.cache.config_maps,
                self._config_map_changed,
                label=GROUP_LABEL,
            ),
        ]
        if sees_nodes:
            zones = WatchedKind(
                paths.NODES, self.cache.zones, lambda node: None, is_namespaced=False
            )
            self.kinds.append(zones)
        self._selectors = PodSelectors()
        self._labels: dict[Key, Labels] = {}
        """The last labels of each pod, to find its groups after it is gone."""

    async def begin(self) -> None:
        """Start to reconcile."""
        self.loop = Loop(self.world)
        self.world.event_writer.start()
        for key in self.cache.topics.list_keys():
            self._topic_changed(key)
        for key in self.cache.groups.list_keys():
            self._group_changed(key)

    async def end(self) -> None:
        """Finish the work in progress, and stop."""
        loop, self.loop = self.loop, None
        if loop is not None:
            await loop.close()
            await self.world.event_writer.stop()

    def _topic_changed(self, key: Key) -> None:
        if self.loop is not None:
            self.loop.topic_changed(key)

    def _group_changed(self, key: Key) -> None:
        group = self.cache.groups.get(key)
        if group is None:
            self.world.forget(key)
        consumers = group.spec.consumers if group else None
        selector = consumers.pod_selector if consumers else None
        self._selectors.note(key, selector.match_labels if selector else None)
        if self.loop is not None:
            self.loop.group_changed(key)

    def _pod_changed(self, key: Key) -> None:
        """Note a change of the groups that the pod belongs to, or belonged to."""
        pod = self.cache.pods.get(key)
        before = self._labels.pop(key, {})
        if pod is not None:
            self._labels[key] = pod.labels
        for labels in (before, pod.labels if pod is not None else {}):
            if GROUP_LABEL in labels:
                self._group_changed(Key(key.namespace, labels[GROUP_LABEL]))
            for group in self._selectors.find_groups(key.namespace, labels):
                self._group_changed(group)

    def _config_map_changed(self, key: Key) -> None:
        """Note a change of the group that a ConfigMap belongs to; a deleted one has no effect."""
        found = self.cache.config_maps.get(key)
        if found is not None:
            self._group_changed(Key(key.namespace, found.group))
