"""The world of a Kubernetes cluster: it reads from the cache, and writes to the API server."""

import base64
import contextlib
import logging
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.groups import GroupStatus
from contract.kinds.parts import Condition
from contract.kinds.topics import TopicStatus
from contract.names import API_VERSION, GROUP_LABEL
from contract.names import name_driver as driver_name
from coordinator.sessions import HeldQueues
from evenkeel import planning
from evenkeel.cluster import assignment_slices
from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_client import Api, Document
from evenkeel.cluster.api.api_errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from evenkeel.cluster.drivers import driver_start, restart_turns
from evenkeel.cluster.drivers.lease_expiry import LeaseExpiry
from evenkeel.cluster.drivers.restart_turns import RestartTurns
from evenkeel.cluster.events.event_writer import EventWriter
from evenkeel.cluster.leader.fence import Fence
from evenkeel.cluster.manifest import job_objects, names, rights
from evenkeel.cluster.secrets import Secrets
from evenkeel.cluster.watch import driver_reports, pods
from evenkeel.cluster.watch.cluster_cache import ClusterCache
from evenkeel.control import conditions
from evenkeel.control.brokers import ClusterAddress, Trust
from evenkeel.control.conditions import Finding
from evenkeel.control.groups.group_status import Notice
from evenkeel.control.groups.member_slots import LiveMember
from evenkeel.control.jobs.states import ABSENT, DriverSeen
from evenkeel.control.topics import allowed_name_servers
from evenkeel.errors import ManifestError
from evenkeel.members.coordination import Coordination
from evenkeel.objects import ConsumerGroup, Key, Topic
from evenkeel.planning import NotReadyError
from lb_core.model import Member
from mq_client.acl import Credentials

log = logging.getLogger("evenkeel")


@dataclass(frozen=True, slots=True)
class _DriverIdentity:
    """The identity that a group's driver must have, cached because it takes long to compute."""

    basis: object
    """The values from which it was computed."""
    identity: str
    wish: str
    """Fingerprint of the user's settings for the driver."""


class ClusterWorld:
    """A Kubernetes cluster, for the control loop."""

    def __init__(
        self,
        api: Api,
        cache: ClusterCache,
        image: str,
        restarts_at_once: int = restart_turns.AT_ONCE,
    ) -> None:
        """Prepare the world. `image` is the image of jobs whose spec has none."""
        self._image = image
        self.restart_turns = RestartTurns(restarts_at_once, self._is_away)
        self._identities: dict[Key, _DriverIdentity] = {}
        self._api = api
        self._expiry = LeaseExpiry(api)
        self._cache = cache
        self._secrets = Secrets(api)
        self.event_writer = EventWriter(api)
        self.allowed: Sequence[str] = ()
        """Patterns of name servers that Topics may name; if empty, any name server is allowed."""
        self.topic_written: Callable[[Key], None] = lambda key: None
        self.group_written: Callable[[Key], None] = lambda key: None
        self.fence = Fence()
        self.coordination: Coordination | None = None
        """None unless this process leads and serves members."""
        self.why_unseen: Callable[[str], str | None] = lambda namespace: None

    def find_topic(self, key: Key) -> Topic | None:
        """Find a topic; None if it does not exist."""
        return self._cache.topics.get(key)

    def find_group(self, key: Key) -> ConsumerGroup | None:
        """Find a group; None if it does not exist."""
        return self._cache.find_group(key)

    def list_groups(self) -> Iterable[ConsumerGroup]:
        """List all groups."""
        return self._cache.list_groups()

    def explain_unseen(self, namespace: str) -> str | None:
        """Explain why a namespace cannot be observed completely; None if it can."""
        return self.why_unseen(namespace)

    def list_pods(self, group: ConsumerGroup) -> Sequence[Member] | None:
        """List the pods that `podSelector` selects."""
        consumers = group.spec.consumers
        if consumers is None or consumers.pod_selector is None:
            return None
        wanted = consumers.pod_selector.match_labels.items()
        found = self._cache.pods.find_by_marks(group.head.key.namespace, wanted)
        return pods.list_members(found, self._cache.find_zone)

    def list_live(self, group: ConsumerGroup) -> Sequence[LiveMember] | None:
        """List the pods that have a session as members."""
        if self.coordination is None:
            return None
        found = self.coordination.list_live(group.head.key)
        if found is None:
            return None
        return [self._describe_member(group, name, since) for name, since in found.items()]

    def list_client_ids(self, key: Key) -> frozenset[str] | None:
        """List the ids by which brokers may know a group's members."""
        return None if self.coordination is None else self.coordination.list_client_ids(key)

    def find_held(self, key: Key) -> HeldQueues | None:
        """Count the granted and waiting queues of a group with members."""
        return None if self.coordination is None else self.coordination.find_held(key)

    def find_poppers(self, key: Key) -> frozenset[str] | None:
        """Find the members of a group that may pop messages."""
        return None if self.coordination is None else self.coordination.find_poppers(key)

    def _describe_member(self, group: ConsumerGroup, name: str, since: datetime) -> LiveMember:
        pod = self._cache.pods.get(group.find_key(name))
        if pod is None:  # the pod was deleted, but its session has not ended yet
            return LiveMember(name, since)
        return LiveMember(name, since, self._cache.find_zone(pod.node) or "", pod.owner)

    def observe_driver(self, key: Key) -> DriverSeen:
        """Observe the driver of a group's job."""
        name = Key(key.namespace, driver_name(key.name))
        pod = self._cache.pods.get(name)
        if pod is None or pod.driver is None:
            return ABSENT
        executors = self._cache.pods.find_by_marks(key.namespace, [(GROUP_LABEL, key.name)])
        return driver_reports.add_report(
            pod, self._cache.find_report(name), executors, self._cache.find_zone
        )

    def compute_identity(self, group: ConsumerGroup) -> str:
        """Compute the fingerprint that the group's driver must have now."""
        key, wanted = group.head.key, self._find_identity(group)
        return self.restart_turns.choose_identity(
            key, wanted.identity, wanted.wish, self.observe_driver(key)
        )

    def _is_away(self, key: Key) -> bool:
        group = self.find_group(key)
        wanted = self._identities.get(key)
        return restart_turns.is_away(
            group, self.observe_driver(key), wanted.identity if wanted else ""
        )

    def _find_identity(self, group: ConsumerGroup) -> _DriverIdentity:
        """Find the identity that the driver must have after its restart. The identity is cached."""
        if not (self._image or (group.spec.job and group.spec.job.image)):
            raise ManifestError(
                f"{group}: set spec.job.image, because the operator was started without --image"
            )
        topics = self._find_topics(group)
        said = (group.spec, group.head.annotations, [each.spec for each in topics.values()])
        known = self._identities.get(group.head.key)
        if known is None or known.basis != said:
            new = job_objects.compute_restart_hash(group, topics, self._image)
            known = _DriverIdentity(said, new, restart_turns.hash_wish(group, topics))
            self._identities[group.head.key] = known
        return known

    def forget(self, key: Key) -> None:
        """Drop all state of a deleted group."""
        self._identities.pop(key, None)
        self._expiry.forget(key)
        self.restart_turns.forget(key)
        self._cache.forget(key)

    async def start_driver(self, group: ConsumerGroup) -> None:
        """Create all objects of a job. The driver's pod is created last."""
        await driver_start.start_driver(self._api, group, self._find_topics(group), self._image)

    async def stop_driver(self, group: ConsumerGroup) -> None:
        """Tell the driver to end after its batch."""
        await self._delete_driver(group)

    async def clear_driver(self, group: ConsumerGroup) -> None:
        """Remove a driver that has ended, and release its Lease if the driver did not."""
        pod = self._cache.pods.get(_find_driver_key(group))
        ending = pod.driver.ending if pod is not None and pod.driver is not None else None
        if pod is not None and ending is not None and ending.is_certain:
            await driver_start.free_lease(self._api, group, pod.uid)
        await self._delete_driver(group, grace_seconds=0)

    async def _delete_driver(self, group: ConsumerGroup, grace_seconds: int | None = None) -> None:
        """Delete the pod of the cached driver, but not a later pod of the same name."""
        key = _find_driver_key(group)
        uid = self._cache.pods.find_uid(key)
        if uid is not None:
            await self._api.delete(paths.build_path(paths.PODS, key), uid, grace_seconds)

    async def give_up_driver(self, group: ConsumerGroup) -> None:
        """Delete the pod of a driver by force if its state is unknown and its Lease has expired."""
        key = _find_driver_key(group)
        pod = self._cache.pods.get(key)
        if pod is not None and await self._expiry.take_back(group, pod.uid):
            await self._api.delete(paths.build_path(paths.PODS, key), pod.uid, grace_seconds=0)

    def _find_topics(self, group: ConsumerGroup) -> dict[Key, Topic]:
        found = {key: self._cache.topics.get(key) for key in group.topic_keys}
        return {key: topic for key, topic in found.items() if topic is not None}

    async def find_cluster(self, topic: Topic) -> ClusterAddress:
        """Find the address and the credentials of a topic's cluster."""
        allowed_name_servers.refuse_others(topic, self.allowed)
        servers = tuple(topic.spec.name_servers or ())
        ref, credentials = topic.spec.credentials_secret_ref, None
        if ref is not None:
            found = await self._read_secret(topic, ref.name, "accessKey", "secretKey")
            credentials = Credentials(found["accessKey"], found["secretKey"])
        return ClusterAddress(servers, credentials, await self._find_trust(topic))

    async def _find_trust(self, topic: Topic) -> Trust | None:
        tls = topic.spec.tls
        if tls is None:
            return None
        if tls.ca_secret_ref is None:
            return Trust(None, tls.insecure_skip_verify)
        name = tls.ca_secret_ref.name
        found = Trust(
            (await self._read_secret(topic, name, "ca.crt"))["ca.crt"], tls.insecure_skip_verify
        )
        try:
            found.context()
        except (ssl.SSLError, ValueError) as error:
            self._secrets.doubt(Key(topic.head.key.namespace, name))
            text = f"{topic}: ca.crt of Secret {name} contains no certificates in PEM: {error}"
            raise NotReadyError(ConditionReason.SECRET_INCOMPLETE, text) from error
        return found

    def refuse_unless_leading(self) -> None:
        """Raise if another replica may already be the leader."""
        self.fence.count_seconds_left()

    async def write_topic(self, topic: Topic, status: TopicStatus) -> None:
        """Replace a topic's status, unless the object has changed in the meantime."""
        answer = await self._write_status(paths.TOPICS, topic, status)
        if answer is not None and self._cache.topics.take(answer):
            self.topic_written(topic.head.key)

    async def write_group(
        self, group: ConsumerGroup, status: GroupStatus, happened: Sequence[Notice]
    ) -> None:
        """Replace a group's status, unless the object has changed in the meantime."""
        written = status
        if planning.is_whole(status):
            cut = assignment_slices.cut_assignments(group, status)
            written = assignment_slices.name_slices(status, cut)
            await self._make_slices(group, written, cut)
        answer = await self._write_status(paths.GROUPS, group, written)
        if answer is None:
            return
        if self._cache.groups.take(answer):
            self.group_written(group.head.key)
        _log_epoch(group, status)
        for each in happened:
            self.event_writer.announce(group, each)
        if written.slices or group.status.slices:
            await self._clear_slices(group, written)

    async def _make_slices(
        self, group: ConsumerGroup, status: GroupStatus, cut: Sequence[Document]
    ) -> None:
        """Create slices and give the driver the right to read them, before a status names them."""
        place = paths.build_list_path(paths.CONFIG_MAPS, group.head.key.namespace)
        for each in cut:
            if self._cache.config_maps.get(group.find_key(each["metadata"]["name"])) is None:
                with contextlib.suppress(ConflictError):  # it was created before a crash
                    self._cache.config_maps.take(await self._api.create(place, each))
        if group.spec.job is not None and status.slices != group.status.slices:
            role = rights.build_role(replace(group, status=status))
            await driver_start.refuse_unless_ours(self._api, group, role)
            await self._api.apply(paths.build_path_of(role), role)

    async def _clear_slices(self, group: ConsumerGroup, written: GroupStatus) -> None:
        """
        Delete slices that the written status does not name. Readers of deleted slices start again.

        A slice of a later epoch belongs to a newer leader, whose status may not name it yet.
        """
        for key in self._cache.list_slices(group.head.key):
            uid = self._cache.config_maps.find_uid(key)
            is_later = assignment_slices.read_epoch(key.name) > written.epoch
            if key.name not in written.slices and not is_later and uid is not None:
                await self._api.delete(paths.build_path(paths.CONFIG_MAPS, key), uid)

    async def _write_status(
        self,
        resource: paths.Resource,
        found: Topic | ConsumerGroup,
        status: TopicStatus | GroupStatus,
    ) -> Document | None:
        """Write a status. Return None if the object has changed and will be reconciled again."""
        key = found.head.key
        document = {
            "apiVersion": API_VERSION,
            "kind": found.KIND,
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "resourceVersion": found.head.version,
                "uid": found.head.uid,
            },
            "spec": msgspec.to_builtins(found.spec),
            "status": msgspec.to_builtins(status),
        }
        place = f"{paths.build_path(resource, key)}/status"
        try:
            return await self._api.replace(place, document)
        except (ConflictError, NotFoundError):
            return None
        except InvalidError as error:
            await self._tell_refusal(place, found, document, error)
            raise

    async def _tell_refusal(
        self, place: str, found: Topic | ConsumerGroup, document: Document, error: ApiError
    ) -> None:
        """Report once, in the old status, that the new status cannot be published."""
        told = _build_refusal(found, error)
        if told != found.status.conditions:
            kept = msgspec.structs.replace(found.status, conditions=told)
            if isinstance(kept, GroupStatus) and kept.slices:
                kept = msgspec.structs.replace(kept, assignments=[])  # the slices contain them
            await self._api.replace(place, {**document, "status": msgspec.to_builtins(kept)})

    async def _read_secret(self, topic: Topic, name: str, *entries: str) -> dict[str, str]:
        key = Key(topic.head.key.namespace, name)
        try:
            found = await self._secrets.get(key)
        except NotFoundError as error:
            raise NotReadyError(
                ConditionReason.SECRET_NOT_FOUND, f"{topic}: there is no Secret {key}"
            ) from error
        except ForbiddenError as error:
            text = f"{topic}: the operator has no right to read its Secret: {error}"
            raise NotReadyError(ConditionReason.SECRET_FORBIDDEN, text) from error
        data: dict[str, str] = found.get("data") or {}
        if missing := sorted(entry for entry in entries if not data.get(entry)):
            self._secrets.doubt(key)
            raise NotReadyError(
                ConditionReason.SECRET_INCOMPLETE,
                f"{topic}: Secret {key} has no {' and no '.join(missing)}",
            )
        try:
            return {entry: base64.b64decode(data[entry]).decode() for entry in entries}
        except ValueError as error:
            self._secrets.doubt(key)
            text = f"{topic}: Secret {key}: {' or '.join(entries)} is not text: {error}"
            raise NotReadyError(ConditionReason.SECRET_INCOMPLETE, text) from error


def _find_driver_key(group: ConsumerGroup) -> Key:
    return group.find_key(names.name_driver(group))


def _build_refusal(found: Topic | ConsumerGroup, error: ApiError) -> list[Condition]:
    """Return the old conditions, with a new Ready that explains why nothing is published."""
    old = found.status.conditions
    text = f"the new status cannot be published: {error}"
    ready = Finding(ConditionType.READY, False, ConditionReason.STATUS_REFUSED, text)
    written = conditions.merge(old, [ready], found.head.generation, datetime.now(UTC))
    return [*written, *(each for each in old if each.type != ConditionType.READY)]


def _log_epoch(group: ConsumerGroup, status: GroupStatus) -> None:
    """Log each new epoch and its trigger."""
    if status.epoch == group.status.epoch:
        return
    rebalance = status.last_rebalance if status.moved != group.status.moved else None
    trigger = rebalance.trigger if rebalance else "NothingMoved"
    key = group.head.key
    what = {"kind": group.KIND, "namespace": key.namespace, "name": key.name}
    log.info(
        "%s: epoch %d is published", group, status.epoch,
        extra={"k8s_ref": what, "epoch": status.epoch, "trigger": trigger},
    )  # fmt: skip
