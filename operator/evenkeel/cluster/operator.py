"""The operator: it hears everything, and while it leads it keeps everything."""

from contract.names import GROUP_LABEL
from evenkeel.cluster import paths, staging
from evenkeel.cluster.api import Api
from evenkeel.cluster.heard import Heard
from evenkeel.cluster.scopes import WatchedKind
from evenkeel.cluster.selectors import Labels, Selectors
from evenkeel.cluster.world import ClusterWorld
from evenkeel.control.loop import Loop
from evenkeel.objects import Key


class Operator:
    """What is heard, and the loop that follows from it while this process leads."""

    def __init__(
        self,
        api: Api,
        image: str,
        *,
        sees_nodes: bool,
        restarts_at_once: int = staging.AT_ONCE,
    ) -> None:
        """
        Hear of nothing yet.

        `image` is for jobs that name none. Nodes, which tell zones, are seen in cluster mode only.
        """
        self.heard = Heard()
        self.world = ClusterWorld(api, self.heard, image, restarts_at_once)
        self.world.topic_written = self._topic_changed
        self.world.group_written = self._group_changed
        self.loop: Loop | None = None
        self.kinds = [
            WatchedKind(paths.TOPICS, self.heard.topics, self._topic_changed),
            WatchedKind(paths.GROUPS, self.heard.groups, self._group_changed),
            WatchedKind(paths.PODS, self.heard.pods, self._pod_changed),
            WatchedKind(
                paths.CONFIG_MAPS,
                self.heard.config_maps,
                self._config_map_changed,
                label=GROUP_LABEL,
            ),
        ]
        if sees_nodes:
            zones = WatchedKind(
                paths.NODES, self.heard.zones, lambda node: None, is_namespaced=False
            )
            self.kinds.append(zones)
        self._selectors = Selectors()
        self._labels: dict[Key, Labels] = {}
        """Of pods, for one that is gone does not tell any more."""

    async def begin(self) -> None:
        """Keep everything from now on."""
        self.loop = Loop(self.world)
        self.world.telling.begin()
        for key in self.heard.topics.known():
            self._topic_changed(key)
        for key in self.heard.groups.known():
            self._group_changed(key)

    async def end(self) -> None:
        """Finish what has begun, and keep nothing more."""
        loop, self.loop = self.loop, None
        if loop is not None:
            await loop.close()
            await self.world.telling.end()

    def _topic_changed(self, key: Key) -> None:
        if self.loop is not None:
            self.loop.topic_changed(key)

    def _group_changed(self, key: Key) -> None:
        group = self.heard.groups.get(key)
        if group is None:
            self.world.forget(key)
        consumers = group.spec.consumers if group else None
        selector = consumers.pod_selector if consumers else None
        self._selectors.note(key, selector.match_labels if selector else None)
        if self.loop is not None:
            self.loop.group_changed(key)

    def _pod_changed(self, key: Key) -> None:
        """Wake the groups that this pod is of, or was."""
        pod = self.heard.pods.get(key)
        before = self._labels.pop(key, {})
        if pod is not None:
            self._labels[key] = pod.labels
        for labels in (before, pod.labels if pod is not None else {}):
            if GROUP_LABEL in labels:
                self._group_changed(Key(key.namespace, labels[GROUP_LABEL]))
            for group in self._selectors.looking_for(key.namespace, labels):
                self._group_changed(group)

    def _config_map_changed(self, key: Key) -> None:
        """Look at whose it is; that one is gone matters only to a group that names it."""
        found = self.heard.config_maps.get(key)
        if found is not None:
            self._group_changed(Key(key.namespace, found.group))
