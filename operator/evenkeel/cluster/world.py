"""The world of a cluster: objects as they were heard of, and writes to the API server."""

import base64
import contextlib
import logging
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus

import msgspec

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.groups import GroupStatus
from contract.kinds.parts import Condition
from contract.kinds.topics import TopicStatus
from contract.names import API_VERSION, GROUP_LABEL
from contract.names import name_driver as driver_name
from evenkeel import planning
from evenkeel.cluster import paths, pods, reports, slices, staging, starting
from evenkeel.cluster.api import Api, ApiError, ConflictError, Document, ForbiddenError, GoneError
from evenkeel.cluster.expiry import Expiry
from evenkeel.cluster.fence import Fence
from evenkeel.cluster.heard import Heard
from evenkeel.cluster.manifest import names, rights, whole
from evenkeel.cluster.secrets import Secrets
from evenkeel.cluster.staging import Staging
from evenkeel.cluster.telling import Telling
from evenkeel.control import conditions
from evenkeel.control.brokers import ClusterAddress, Trust
from evenkeel.control.conditions import Finding
from evenkeel.control.groups.group_status import Happened
from evenkeel.control.jobs.states import ABSENT, DriverSeen
from evenkeel.control.topics import allowed_name_servers
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic
from evenkeel.planning import NotReadyError
from lb_core.model import Member
from mq_client.acl import Credentials

log = logging.getLogger("evenkeel")


class ClusterWorld:
    """A cluster, for the loop."""

    def __init__(
        self, api: Api, heard: Heard, image: str, restarts_at_once: int = staging.AT_ONCE
    ) -> None:
        """Write nothing yet. `image` is for jobs that name none."""
        self._image = image
        self.staging = Staging(restarts_at_once, self._is_away)
        self._identities: dict[Key, tuple[object, str, str]] = {}
        """What groups said when their drivers' identities were worked out, which takes long."""
        self._api = api
        self._expiry = Expiry(api)
        self._heard = heard
        self._secrets = Secrets(api)
        self.telling = Telling(api)
        self.allowed: Sequence[str] = ()
        """Name servers that Topics may name, as patterns; none: any."""
        self.topic_written: Callable[[Key], None] = lambda key: None
        self.group_written: Callable[[Key], None] = lambda key: None
        self.fence = Fence()
        self.why_unseen: Callable[[str], str | None] = lambda namespace: None

    def topic(self, key: Key) -> Topic | None:
        """Find a topic; None if it is gone."""
        return self._heard.topics.get(key)

    def group(self, key: Key) -> ConsumerGroup | None:
        """Find a group; None if it is gone."""
        return self._heard.group(key)

    def groups(self) -> Iterable[ConsumerGroup]:
        """List all groups."""
        return self._heard.all_groups()

    def unseen(self, namespace: str) -> str | None:
        """Say why what is in a namespace cannot be seen as a whole; None if it can."""
        return self.why_unseen(namespace)

    def pods(self, group: ConsumerGroup) -> Sequence[Member] | None:
        """List the pods that `podSelector` selects."""
        consumers = group.spec.consumers
        if consumers is None or consumers.pod_selector is None:
            return None
        wanted = consumers.pod_selector.match_labels.items()
        found = self._heard.pods.bearing(group.head.key.namespace, wanted)
        return pods.members(found, self._heard.zone)

    def driver(self, key: Key) -> DriverSeen:
        """Tell how the driver of a group's job is."""
        name = Key(key.namespace, driver_name(key.name))
        pod = self._heard.pods.get(name)
        if pod is None or pod.driver is None:
            return ABSENT
        executors = self._heard.pods.bearing(key.namespace, [(GROUP_LABEL, key.name)])
        return reports.with_report(pod, self._heard.report(name), executors, self._heard.zone)

    def identity(self, group: ConsumerGroup) -> str:
        """Tell as what a group's driver is to run now."""
        wanted, wish = self._identity(group)
        key = group.head.key
        return self.staging.identity(key, wanted, wish, self.driver(key))

    def _is_away(self, key: Key) -> bool:
        group = self.group(key)
        wanted = self._identities.get(key)
        return staging.is_away(group, self.driver(key), wanted[1] if wanted else "")

    def _identity(self, group: ConsumerGroup) -> tuple[str, str]:
        """Tell as what its driver is to run in the end, and what its user wishes."""
        if not (self._image or (group.spec.job and group.spec.job.image)):
            raise ManifestError(f"{group}: give spec.job.image, for the operator has no --image")
        topics = self._topics(group)
        said = (group.spec, group.head.annotations, [each.spec for each in topics.values()])
        known = self._identities.get(group.head.key)
        if known is None or known[0] != said:
            new = whole.restart_hash(group, topics, self._image)
            known = (said, new, staging.asked(group, topics))
            self._identities[group.head.key] = known
        return known[1], known[2]

    def forget(self, key: Key) -> None:
        """Keep nothing of a group that is gone."""
        self._identities.pop(key, None)
        self._expiry.forget(key)
        self.staging.forget(key)
        self._heard.forget(key)

    async def start_driver(self, group: ConsumerGroup) -> None:
        """Make all that a job needs; the driver's pod is the last."""
        await starting.start_driver(self._api, group, self._topics(group), self._image)

    async def stop_driver(self, group: ConsumerGroup) -> None:
        """Let the driver end after its batch."""
        await self._delete_driver(group)

    async def clear_driver(self, group: ConsumerGroup) -> None:
        """Clear away a driver that has ended, and what it could not give back itself."""
        pod = self._heard.pods.get(_driver_of(group))
        ending = pod.driver.ending if pod is not None and pod.driver is not None else None
        if pod is not None and ending is not None and ending.is_certain:
            await starting.free_lease(self._api, group, pod.uid)
        await self._delete_driver(group, grace_seconds=0)

    async def _delete_driver(self, group: ConsumerGroup, grace_seconds: int | None = None) -> None:
        """Delete the driver that was seen, and no other one of its name."""
        key = _driver_of(group)
        uid = self._heard.pods.uid(key)
        if uid is not None:
            await self._api.delete(paths.one(paths.PODS, key), uid, grace_seconds)

    async def give_up_driver(self, group: ConsumerGroup) -> None:
        """Remove by force a driver that nobody tells of, once its Lease has run out."""
        key = _driver_of(group)
        pod = self._heard.pods.get(key)
        if pod is not None and await self._expiry.take_back(group, pod.uid):
            await self._api.delete(paths.one(paths.PODS, key), pod.uid, grace_seconds=0)

    def _topics(self, group: ConsumerGroup) -> dict[Key, Topic]:
        found = {key: self._heard.topics.get(key) for key in group.topic_keys}
        return {key: topic for key, topic in found.items() if topic is not None}

    async def cluster(self, topic: Topic) -> ClusterAddress:
        """Tell how to reach a topic's cluster, credentials included."""
        allowed_name_servers.refuse_others(topic, self.allowed)
        servers = tuple(topic.spec.name_servers or ())
        ref, credentials = topic.spec.credentials_secret_ref, None
        if ref is not None:
            found = await self._secret(topic, ref.name, "accessKey", "secretKey")
            credentials = Credentials(found["accessKey"], found["secretKey"])
        return ClusterAddress(servers, credentials, await self._trust(topic))

    async def _trust(self, topic: Topic) -> Trust | None:
        tls = topic.spec.tls
        if tls is None:
            return None
        if tls.ca_secret_ref is None:
            return Trust(None, tls.insecure_skip_verify)
        name = tls.ca_secret_ref.name
        found = Trust(
            (await self._secret(topic, name, "ca.crt"))["ca.crt"], tls.insecure_skip_verify
        )
        try:
            found.context()
        except (ssl.SSLError, ValueError) as error:
            self._secrets.doubt(Key(topic.head.key.namespace, name))
            text = f"{topic}: ca.crt of Secret {name} holds no certificates in PEM: {error}"
            raise NotReadyError(ConditionReason.SECRET_INCOMPLETE, text) from error
        return found

    def refuse_unless_leading(self) -> None:
        """Raise if somebody else may lead by now."""
        self.fence.seconds_left()

    async def write_topic(self, topic: Topic, status: TopicStatus) -> None:
        """Replace a topic's status, unless the object has changed meanwhile."""
        answer = await self._write_status(paths.TOPICS, topic, status)
        if answer is not None and self._heard.topics.take(answer):
            self.topic_written(topic.head.key)

    async def write_group(
        self, group: ConsumerGroup, status: GroupStatus, happened: Sequence[Happened]
    ) -> None:
        """Replace a group's status, unless the object has changed meanwhile."""
        written = status
        if planning.is_whole(status):
            cut = slices.cut(group, status)
            written = slices.sliced(status, cut)
            await self._make_slices(group, written, cut)
        answer = await self._write_status(paths.GROUPS, group, written)
        if answer is None:
            return
        if self._heard.groups.take(answer):
            self.group_written(group.head.key)
        _log(group, status)
        for each in happened:
            self.telling.tell(group, each)
        if written.slices or group.status.slices:
            await self._clear_slices(group, written)

    async def _make_slices(
        self, group: ConsumerGroup, status: GroupStatus, cut: Sequence[Document]
    ) -> None:
        """Make slices and let the driver read them, before a status names them."""
        place = paths.listed(paths.CONFIG_MAPS, group.head.key.namespace)
        for each in cut:
            if self._heard.config_maps.get(group.beside(each["metadata"]["name"])) is None:
                with contextlib.suppress(ConflictError):  # it was made before a crash
                    self._heard.config_maps.take(await self._api.create(place, each))
        if group.spec.job is not None and status.slices != group.status.slices:
            role = rights.role(replace(group, status=status))
            await starting.refuse_unless_ours(self._api, group, role)
            await self._api.apply(paths.of(role), role)

    async def _clear_slices(self, group: ConsumerGroup, written: GroupStatus) -> None:
        """
        Delete what the status does not name that was written; who reads an older one looks again.

        A slice of a later epoch is somebody else's who leads by now, and may not be named yet.
        """
        for key in self._heard.slices_of(group.head.key):
            uid = self._heard.config_maps.uid(key)
            is_later = slices.epoch_of(key.name) > written.epoch
            if key.name not in written.slices and not is_later and uid is not None:
                await self._api.delete(paths.one(paths.CONFIG_MAPS, key), uid)

    async def _write_status(
        self,
        resource: paths.Resource,
        found: Topic | ConsumerGroup,
        status: TopicStatus | GroupStatus,
    ) -> Document | None:
        """Write; None if the object has changed, for then it is looked at again anyway."""
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
        place = f"{paths.one(resource, key)}/status"
        try:
            return await self._api.replace(place, document)
        except (ConflictError, GoneError):
            return None
        except ApiError as error:
            if error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
                await self._tell_refusal(place, found, document, error)
            raise

    async def _tell_refusal(
        self, place: str, found: Topic | ConsumerGroup, document: Document, error: ApiError
    ) -> None:
        """Say in the status that was there that the next one cannot be published, once."""
        told = _refused(found, error)
        if told != found.status.conditions:
            kept = msgspec.structs.replace(found.status, conditions=told)
            if isinstance(kept, GroupStatus) and kept.slices:
                kept = msgspec.structs.replace(kept, assignments=[])  # they are in the slices
            await self._api.replace(place, {**document, "status": msgspec.to_builtins(kept)})

    async def _secret(self, topic: Topic, name: str, *entries: str) -> dict[str, str]:
        key = Key(topic.head.key.namespace, name)
        try:
            found = await self._secrets.get(key)
        except GoneError as error:
            raise NotReadyError(
                ConditionReason.SECRET_NOT_FOUND, f"{topic}: there is no Secret {key}"
            ) from error
        except ForbiddenError as error:
            text = f"{topic}: the operator may not read its Secret: {error}"
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
            text = f"{topic}: Secret {key}: {' or '.join(entries)} is no text: {error}"
            raise NotReadyError(ConditionReason.SECRET_INCOMPLETE, text) from error


def _driver_of(group: ConsumerGroup) -> Key:
    return group.beside(names.driver(group))


def _refused(found: Topic | ConsumerGroup, error: ApiError) -> list[Condition]:
    """Say that what follows cannot be published, beside what was so before."""
    old = found.status.conditions
    text = f"what follows cannot be published: {error}"
    ready = Finding(ConditionType.READY, False, ConditionReason.STATUS_REFUSED, text)
    written = conditions.merged(old, [ready], found.head.generation, datetime.now(UTC))
    return [*written, *(each for each in old if each.type != ConditionType.READY)]


def _log(group: ConsumerGroup, status: GroupStatus) -> None:
    """Say of each new assignment what it is and what it came from."""
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
