"""
The world without Kubernetes is a file of manifests. Users can edit the file at any time.

Statuses are kept in memory, and in a file from which the next run reads the last epochs.
"""

import hashlib
import logging
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from contract import assignment, names
from contract import job_file as contract_job_file
from contract.conditions import ConditionReason, ConditionType
from contract.job_file import JobFile
from contract.kinds.groups import GroupStatus
from contract.kinds.parts import KeyRef
from contract.kinds.topics import TopicStatus
from contract.names import RESTART
from coordinator.sessions import HeldQueues
from evenkeel import job_file, manifests
from evenkeel.control import conditions
from evenkeel.control.brokers import ClusterAddress
from evenkeel.control.groups.group_status import Notice
from evenkeel.control.groups.member_slots import LiveMember
from evenkeel.control.jobs.states import ABSENT, DriverSeen
from evenkeel.control.loop import Loop
from evenkeel.embedded import driver
from evenkeel.embedded.driver import EmbeddedDriver
from evenkeel.errors import ManifestError
from evenkeel.job_file import Places
from evenkeel.manifests import Manifests
from evenkeel.members.coordination import Coordination
from evenkeel.objects import ConsumerGroup, Key, Topic
from evenkeel.planning import NotReadyError
from lb_core.model import Member
from mq_client.acl import Credentials

log = logging.getLogger("evenkeel")
Hear = Callable[[Key, Notice], None]


class FileWorld:
    """The objects of a file, and drivers as processes."""

    def __init__(self, file: Path, folder: Path, hear: Hear) -> None:
        """Create the state folder and read the last statuses."""
        self.coordination = Coordination(
            lambda key: self._note_change(key, Loop.note_members_change)
        )
        self._file = file
        self._folder = folder
        self._hear = hear
        self._objects = Manifests()
        self._drivers: dict[Key, EmbeddedDriver] = {}
        self._loop: Loop | None = None
        self._stamp: tuple[int, int] | None = (0, 0)
        folder.mkdir(parents=True, exist_ok=True)
        self._kept = _read_status(folder / "status.json")

    def attach(self, loop: Loop) -> None:
        """Read the file. From now on, report changes to this loop."""
        self._loop = loop
        self._read_file()

    def look(self) -> None:
        """Read the file and the drivers' reports again if they have changed."""
        try:
            self._read_file()
        except ManifestError as error:
            log.error("%s; the old objects stay in use", error)
        for each in list(self._drivers.values()):
            each.look()

    def find_topic(self, key: Key) -> Topic | None:
        """Find a topic; None if it does not exist."""
        return self._objects.topics.get(key)

    def find_group(self, key: Key) -> ConsumerGroup | None:
        """Find a group; None if it does not exist."""
        return self._objects.groups.get(key)

    def list_groups(self) -> Iterable[ConsumerGroup]:
        """List all groups."""
        return self._objects.groups.values()

    def explain_unseen(self, namespace: str) -> str | None:
        """Return None, because everything can be observed."""
        return None

    def list_pods(self, group: ConsumerGroup) -> Sequence[Member] | None:
        """Return None, because there are no pods without Kubernetes."""
        return None

    def list_live(self, group: ConsumerGroup) -> Sequence[LiveMember] | None:
        """List the members that have a session."""
        found = self.coordination.list_live(group.head.key)
        return None if found is None else [LiveMember(*each) for each in found.items()]

    def list_client_ids(self, key: Key) -> frozenset[str] | None:
        """List the ids by which brokers may know a group's members."""
        return self.coordination.list_client_ids(key)

    def find_held(self, key: Key) -> HeldQueues | None:
        """Count the granted and waiting queues of a group with members."""
        return self.coordination.find_held(key)

    def find_poppers(self, key: Key) -> frozenset[str] | None:
        """Find the members of a group that may pop messages."""
        return self.coordination.find_poppers(key)

    def observe_driver(self, key: Key) -> DriverSeen:
        """Observe the driver of a group's job."""
        found = self._drivers.get(key)
        return found.seen if found else ABSENT

    def find_process(self, key: Key) -> EmbeddedDriver | None:
        """Find the process of a group's job."""
        return self._drivers.get(key)

    async def find_cluster(self, topic: Topic) -> ClusterAddress:
        """Find the address and the credentials of a topic's cluster."""
        if topic.spec.tls is not None:
            raise NotReadyError(
                ConditionReason.TLS_NOT_HERE,
                f"{topic}: spec.tls needs Kubernetes; embedded mode does not use TLS",
            )
        secrets = self._find_credentials(topic)
        credentials = Credentials(secrets["accessKey"], secrets["secretKey"]) if secrets else None
        return ClusterAddress(tuple(topic.spec.name_servers or ()), credentials)

    def refuse_unless_leading(self) -> None:
        """Do nothing, because there is no other replica."""

    async def write_topic(self, topic: Topic, status: TopicStatus) -> None:
        """Replace a topic's status."""
        key = topic.head.key
        if self._objects.topics.get(key) is topic:
            for each in _announce_topic(topic, status):
                self._hear(key, each)
            self._objects.topics[key] = replace(topic, status=status)
            self._note_change(key, Loop.topic_changed)

    async def write_group(
        self, group: ConsumerGroup, status: GroupStatus, happened: Sequence[Notice]
    ) -> None:
        """Replace a group's status."""
        key = group.head.key
        if self._objects.groups.get(key) is group:
            self._objects.groups[key] = replace(group, status=status)
            if status.epoch != group.status.epoch:
                self._publish(key)
            self._coordinate(key)
            for each in (*happened, *_announce_changes(group.status, status)):
                self._hear(key, each)
            self._note_change(key, Loop.group_changed)

    def compute_identity(self, group: ConsumerGroup) -> str:
        """Compute the fingerprint of the group's driver. A change restarts the driver."""
        return _hash_job(self._build_job(group, self._prepare_driver(group.head.key)))

    async def start_driver(self, group: ConsumerGroup) -> None:
        """Start the driver of a group's job."""
        found = self._prepare_driver(group.head.key)
        job = self._build_job(group, found)
        self._publish(group.head.key)
        await found.start(job, _hash_job(job))

    async def stop_driver(self, group: ConsumerGroup) -> None:
        """Tell the driver to end after its batch."""
        self._prepare_driver(group.head.key).stop()

    async def clear_driver(self, group: ConsumerGroup) -> None:
        """Remove a driver that has ended."""
        self._prepare_driver(group.head.key).clear()

    async def give_up_driver(self, group: ConsumerGroup) -> None:
        """Do nothing, because the state of a process is always known."""

    async def close(self) -> None:
        """End all jobs after their batches."""
        self.coordination.close()
        for each in self._drivers.values():
            await each.end()

    def _prepare_driver(self, key: Key) -> EmbeddedDriver:
        """Find the driver of a group. If there is none, create it without starting it."""
        found = self._drivers.get(key)
        if found is None:
            folder = self._folder / key.namespace / key.name
            folder.mkdir(parents=True, exist_ok=True)
            found = EmbeddedDriver(folder, lambda: self._note_change(key, Loop.group_changed))
            self._drivers[key] = found
        return found

    def _publish(self, key: Key) -> None:
        """Write the newest assignment to the job's file, if the group has a job."""
        if key in self._drivers:
            group = self._objects.groups[key]
            found = assignment.make_file(group.status, group.to_drain)
            driver.write_atomically(self._drivers[key].folder / names.ASSIGNMENT, found)

    def _coordinate(self, key: Key) -> None:
        """Pass the newest assignment to the coordinator, if the group has members."""
        group = self._objects.groups.get(key)
        if group is None:
            self.coordination.forget(key)
        else:
            self.coordination.follow(group, self._objects.topics)

    def _note_change(self, key: Key, tell: Callable[[Loop, Key], None]) -> None:
        _write_status(self._folder / "status.json", self._objects)
        if self._loop is not None:
            tell(self._loop, key)

    def _build_job(self, group: ConsumerGroup, process: EmbeddedDriver) -> JobFile:
        folder = process.folder
        job = group.spec.job
        assert job is not None
        if job.checkpoint.url is None:
            raise ManifestError(
                f"{group}: persistentVolumeClaim needs Kubernetes; set spec.job.checkpoint.url"
            )
        topics = self._objects.topics
        places = Places(
            str(folder / names.ASSIGNMENT),
            str(folder / names.REPORT),
            job.checkpoint.url,
            {ref: self._write_python_file(group, ref, folder) for ref in job_file.list_refs(group)},
            {
                name: self._write_options(group, name, folder)
                for name in job_file.list_secrets(group)
            },
            self._find_credentials(topics[group.topic_keys[0]]),
        )
        workers = process.choose_executor_count(job.executors)
        spark = driver.build_settings(job.executor, workers) | job.spark_conf
        if RESTART in group.head.annotations:
            spark["spark.evenkeel.restart"] = group.head.annotations[RESTART]
        # The number of executors comes from the assignment, so a change needs no restart.
        return job_file.build(group, topics, places, spark, workers - driver.SPARE)

    def _write_python_file(self, group: ConsumerGroup, ref: KeyRef, folder: Path) -> str:
        key = group.find_key(ref.name)
        text = self._objects.config_maps.get(key, {}).get(ref.key)
        if text is None:
            raise ManifestError(f"{group}: there is no ConfigMap {key} with an entry {ref.key}")
        path = folder / f"{ref.name}-{ref.key}"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def _write_options(self, group: ConsumerGroup, name: str, folder: Path) -> str:
        """Write the entries of a Secret to files, as a volume of a pod would have them."""
        key = group.find_key(name)
        if key not in self._objects.secrets:
            raise ManifestError(f"{group}: there is no Secret {key}, which a sink names")
        path = folder / f"options-{name}"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        for entry, text in self._objects.secrets[key].items():
            driver.write_private(path / entry, text)
        return str(path)

    def _find_credentials(self, topic: Topic) -> dict[str, str]:
        ref = topic.spec.credentials_secret_ref
        if ref is None:
            return {}
        key = Key(topic.head.key.namespace, ref.name)
        found = self._objects.secrets.get(key, {})
        missing = {"accessKey", "secretKey"} - found.keys()
        if missing:
            names = " and ".join(sorted(missing))
            raise NotReadyError(
                ConditionReason.SECRET_NOT_FOUND, f"{topic}: there is no Secret {key} with {names}"
            )
        return {name: found[name] for name in ("accessKey", "secretKey")}

    def _read_file(self) -> None:
        """Read a changed file. Statuses are kept, and a changed spec gets a new generation."""
        stamp = self._file_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        found = manifests.read(self._file)
        old = self._objects
        self._objects = Manifests(
            {
                key: self._keep_status(topic, old.topics.get(key))
                for key, topic in found.topics.items()
            },
            {
                key: self._keep_status(group, old.groups.get(key))
                for key, group in found.groups.items()
            },
            found.config_maps,
            found.secrets,
        )
        for key in old.topics.keys() | found.topics.keys():
            self._note_change(key, Loop.topic_changed)
        for key in old.groups.keys() & found.groups.keys():
            if old.groups[key].to_drain != found.groups[key].to_drain:
                self._publish(key)
        for key in old.groups.keys() | found.groups.keys():
            self._coordinate(key)
            self._note_change(key, Loop.group_changed)

    def _file_stamp(self) -> tuple[int, int] | None:
        try:
            facts = self._file.stat()
        except OSError:
            return None  # the attempt to read it raises an error with the reason
        return facts.st_mtime_ns, facts.st_ino

    def _keep_status(self, found: Any, old: Any) -> Any:
        if old is None:
            kept = self._kept.get((found.KIND, str(found.head.key)), {})
            status = msgspec.convert(kept.get("status", {}), type(found.status))
            created = kept.get("created") or datetime.now(UTC).isoformat()
            uid = kept.get("uid") or str(uuid.uuid4())
            head = replace(found.head, generation=1, created=created, uid=uid)
            return replace(found, status=status, head=head)
        generation = old.head.generation + (found.spec != old.spec)
        head = replace(
            found.head, generation=generation, created=old.head.created, uid=old.head.uid
        )
        return replace(found, status=old.status, head=head)


def _read_status(path: Path) -> dict[tuple[str, str], Any]:
    try:
        found = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise ManifestError(
            f"{path} cannot be read: {error}; it contains the last epochs"
        ) from error
    return {(each["kind"], each["name"]): each for each in found}


def _write_status(path: Path, objects: Manifests) -> None:
    both: list[Topic | ConsumerGroup] = [*objects.topics.values(), *objects.groups.values()]
    found = [
        {
            "kind": each.KIND,
            "name": str(each.head.key),
            "created": each.head.created,
            "uid": each.head.uid,
            "status": each.status,
        }
        for each in both
    ]
    driver.write_atomically(path, found)


def _announce_topic(topic: Topic, new: TopicStatus) -> Iterator[Notice]:
    """Make a notice when a topic becomes unready, or ready again, or the reason changes."""
    before, now = (
        conditions.find(each.conditions, ConditionType.READY) for each in (topic.status, new)
    )
    if now is None or (before is not None and before.reason == now.reason):
        return
    if not now.holds:
        yield Notice(now.reason, f"{topic}: {now.message}", is_warning=True)
    elif before is not None and not before.holds:
        yield Notice(now.reason, f"{topic}: it is ready")


def _announce_changes(old: GroupStatus, new: GroupStatus) -> Iterator[Notice]:
    """Make a notice when a group becomes ready, and when its queues begin or cease to be lent."""
    before, now = (conditions.find(each.conditions, ConditionType.READY) for each in (old, new))
    if now is not None and now.holds and not (before is not None and before.holds):
        who = f"{new.queues} queues, {new.consumers} consumers"
        yield Notice(now.reason, f"{now.reason}: epoch {new.epoch}, {who}")
    before, now = (conditions.find(each.conditions, ConditionType.FOLLOWED) for each in (old, new))
    if now is None or (before is not None and before.reason == now.reason):
        return
    if now.reason == ConditionReason.LENT:
        yield Notice(now.reason, f"{now.reason}: {now.message}", is_warning=True)
    elif now.holds:
        yield Notice(now.reason, f"{now.reason}: all queues are read by their owners")


def _hash_job(job: JobFile) -> str:
    return hashlib.sha256(contract_job_file.encode(job).encode()).hexdigest()[:16]
