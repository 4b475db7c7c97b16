"""The operator caches all watched objects, and reconciles them while it leads."""

import asyncio
import logging
from datetime import datetime

from contract.following import Denial, MemberRefusal, Refusal
from contract.names import GROUP_LABEL
from evenkeel import planning
from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_client import Api, ApiRequest, Document
from evenkeel.cluster.drivers import restart_turns
from evenkeel.cluster.members import token_reviews
from evenkeel.cluster.members.documents import Place
from evenkeel.cluster.members.members_service import MembersService
from evenkeel.cluster.members.pod_door import PodDoor
from evenkeel.cluster.members.token_reviews import TokenReviews
from evenkeel.cluster.watch.cluster_cache import ClusterCache
from evenkeel.cluster.watch.pod_selectors import PodSelectors
from evenkeel.cluster.watch.pods import Pod
from evenkeel.cluster.watch.scopes import WatchedKind
from evenkeel.cluster.world import ClusterWorld
from evenkeel.control.groups.group_status import Notice
from evenkeel.control.loop import Loop
from evenkeel.control.topics.topic_users import TopicUsers
from evenkeel.members.coordination import Coordination
from evenkeel.members.metrics import MemberMetrics
from evenkeel.objects import Key

log = logging.getLogger("evenkeel")
TOLD = frozenset(
    each.value for each in (Denial.ANOTHER_POD, Denial.NOT_SELECTED, Refusal.RELEASE_OVERDUE)
)
"""
Refusals about which a user must do something. Only pods of the group's namespace can cause them.
"""


class Operator:
    """The cache of watched objects, and the control loop while this process leads."""

    def __init__(
        self,
        api: Api,
        image: str,
        *,
        sees_nodes: bool,
        restarts_at_once: int = restart_turns.AT_ONCE,
        place: Place | None = None,
    ) -> None:
        """
        Prepare the operator. Watches call it later.

        `image` is the image of jobs whose spec has none. Zones come from nodes, which can be
        watched only if the operator watches all namespaces. `place` is where members find the
        leader; None without members.
        """
        self._api = api
        self._place = place
        self._members: asyncio.Task[None] | None = None
        self._users = TopicUsers()
        self.cache = ClusterCache()
        self.member_metrics = MemberMetrics(
            lambda: self.world.coordination, lambda group: self.cache.groups.get(group) is not None
        )
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
        self._pods: dict[Key, Pod] = {}
        """
        The last seen version of each pod.

        It is used to find the groups of a deleted pod, and to find what changed in the next
        version.
        """

    async def begin(self) -> None:
        """Begin to reconcile."""
        self.loop = Loop(self.world)
        self.world.event_writer.start()
        if self._place is not None:
            leads = self.world.fence.is_open
            self.world.coordination = Coordination(self._note_members_change, leads=leads)
            self.world.coordination.member_silent = self._tell_silence
            self.world.coordination.queue_released = self.member_metrics.measure_release
            self._members = asyncio.create_task(self._serve_members(self._place), name="members")
        for key in self.cache.topics.list_keys():
            self._topic_changed(key)
        for key in self.cache.groups.list_keys():
            self._group_changed(key)

    async def end(self) -> None:
        """Finish the work in progress, and stop."""
        loop, self.loop = self.loop, None
        coordination, self.world.coordination = self.world.coordination, None
        if coordination is not None:
            coordination.close()
        members, self._members = self._members, None
        if members is not None:
            members.cancel()
            await asyncio.wait([members])
        if loop is not None:
            await loop.close()
            await self.world.event_writer.stop()

    def _note_members_change(self, key: Key) -> None:
        if self.loop is not None:
            self.loop.note_members_change(key)

    async def _serve_members(self, place: Place) -> None:
        """Serve members. If that fails because of a defect, this process continues to lead."""
        assert self.world.coordination is not None
        reviews = TokenReviews(self._review_token)
        door = PodDoor(reviews, self.cache.groups.get, self.cache.pods.get)
        service = MembersService(
            self._api, place, self.world.coordination, door, self._note_refusal
        )
        try:
            await service.run()
        except Exception:
            log.exception("members are no longer served; this is a defect of Evenkeel")
        finally:
            await reviews.close()

    def _note_refusal(self, group: Key, refusal: MemberRefusal) -> None:
        """Count a refusal. Write an Event if its reason is in `TOLD`."""
        self.member_metrics.count_refusal(group, refusal.reason)
        found = self.cache.groups.get(group) if refusal.reason in TOLD else None
        if found is not None:
            what = Notice(f"Member{refusal.reason}", refusal.message, is_warning=True)
            self.world.event_writer.announce(found, what)

    def _tell_silence(self, group: Key, member: str) -> None:
        self.member_metrics.count_silence(group)
        found = self.cache.groups.get(group)
        if found is not None:
            text = (
                f"{member} sends no requests: its session has ended, and other members read its "
                "queues"
            )
            self.world.event_writer.announce(found, Notice("MemberSilent", text, is_warning=True))

    async def _review_token(self, review: Document) -> Document:
        return await self._api.ask_unfenced(ApiRequest("POST", token_reviews.PATH, review))

    def _coordinate(self, key: Key) -> None:
        """Pass the newest assignment to the coordinator, if the group has members."""
        coordination = self.world.coordination
        if coordination is None:
            return
        group = self.cache.find_group(key)
        if group is None:
            coordination.forget(key)
        elif planning.is_whole(group.status):
            found = {each: self.cache.topics.get(each) for each in group.topic_keys}
            coordination.follow(group, {k: topic for k, topic in found.items() if topic})

    def _topic_changed(self, key: Key) -> None:
        for user in self._users.list_groups(key):
            self._coordinate(user)
        if self.loop is not None:
            self.loop.topic_changed(key)

    def _group_changed(self, key: Key) -> None:
        group = self.cache.groups.get(key)
        if group is None:
            self.world.forget(key)
        consumers = group.spec.consumers if group else None
        selector = consumers.pod_selector if consumers else None
        if consumers is not None and consumers.members is not None:
            selector = consumers.members.selector
        self._users.note(key, group.topic_keys if group and planning.has_members(group) else ())
        self._selectors.note(key, selector.match_labels if selector else None)
        self._coordinate(key)
        if self.loop is not None:
            self.loop.group_changed(key)

    def _pod_changed(self, key: Key) -> None:
        """Note a change of all groups to which the pod belongs or belonged."""
        pod = self.cache.pods.get(key)
        before = self._pods.pop(key, None)
        if pod is not None:
            self._pods[key] = pod
        for labels in (each.labels if each is not None else {} for each in (before, pod)):
            if GROUP_LABEL in labels:
                self._group_changed(Key(key.namespace, labels[GROUP_LABEL]))
            for group in self._selectors.find_groups(key.namespace, labels):
                if before is not None and pod is not None:
                    self._note_end(group, before, pod)
                self._group_changed(group)

    def _note_end(self, group: Key, before: Pod, pod: Pod) -> None:
        """
        Report to the coordination, only once, that the pod or all its containers have ended.

        A deleted object does not show that the pod has ended: the object may have been deleted by
        force while its process still runs. If a pod ends, its status shows that before its object
        is deleted.
        """
        coordination = self.world.coordination
        if coordination is None:
            return
        if pod.has_ended:
            coordination.end(group, pod.key.name)
        elif pod.gone_before not in ("", before.gone_before):
            coordination.suspect(group, pod.key.name, datetime.fromisoformat(pod.gone_before))

    def _config_map_changed(self, key: Key) -> None:
        """Note a change of the group to which a ConfigMap belongs. Deletion has no effect."""
        found = self.cache.config_maps.get(key)
        if found is not None:
            self._group_changed(Key(key.namespace, found.group))
