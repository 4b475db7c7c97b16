"""
A world without Kubernetes: a file of manifests, which may be edited at any time.

Status is kept in memory, and in a file that the next run begins with, so that epochs go on.
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
from evenkeel import job_file, manifests
from evenkeel.control import conditions
from evenkeel.control.brokers import ClusterAddress
from evenkeel.control.groups.group_status import Happened
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
Hear = Callable[[Key, Happened], None]


class FileWorld:
    """Objects of a file, and drivers as processes."""

    def __init__(self, file: Path, folder: Path, hear: Hear) -> None:
        """Read the file; an error in it is raised now, and only told later."""
        self.coordination = Coordination(lambda key: self._changed(key, Loop.group_changed))
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
        """Tell this loop from now on what changes."""
        self._loop = loop
        self._read_file()

    def look(self) -> None:
        """See whether the file or a report has changed."""
        try:
            self._read_file()
        except ManifestError as error:
            log.error("%s; everything stays as it was", error)
        for each in list(self._drivers.values()):
            each.look()

    def topic(self, key: Key) -> Topic | None:
        """Find a topic; None if it is gone."""
        return self._objects.topics.get(key)

    def group(self, key: Key) -> ConsumerGroup | None:
        """Find a group; None if it is gone."""
        return self._objects.groups.get(key)

    def groups(self) -> Iterable[ConsumerGroup]:
        """List all groups."""
        return self._objects.groups.values()

    def unseen(self, namespace: str) -> str | None:
        """Everything is seen here."""
        return None

    def pods(self, group: ConsumerGroup) -> Sequence[Member] | None:
        """List members: there are no pods here."""
        return self.coordination.members(group)

    def driver(self, key: Key) -> DriverSeen:
        """Tell how the driver of a group's job is."""
        found = self._drivers.get(key)
        return found.seen if found else ABSENT

    def process(self, key: Key) -> EmbeddedDriver | None:
        """Find the process of a group's job."""
        return self._drivers.get(key)

    async def cluster(self, topic: Topic) -> ClusterAddress:
        """Tell how to reach a topic's cluster."""
        if topic.spec.tls is not None:
            raise NotReadyError(
                ConditionReason.TLS_NOT_HERE,
                f"{topic}: spec.tls needs Kubernetes; embedded mode speaks plainly",
            )
        secrets = self._credentials(topic)
        credentials = Credentials(secrets["accessKey"], secrets["secretKey"]) if secrets else None
        return ClusterAddress(tuple(topic.spec.name_servers or ()), credentials)

    def refuse_unless_leading(self) -> None:
        """Nobody else leads here."""

    async def write_topic(self, topic: Topic, status: TopicStatus) -> None:
        """Replace a topic's status."""
        key = topic.head.key
        if self._objects.topics.get(key) is topic:
            for each in _trouble(topic, status):
                self._hear(key, each)
            self._objects.topics[key] = replace(topic, status=status)
            self._changed(key, Loop.topic_changed)

    async def write_group(
        self, group: ConsumerGroup, status: GroupStatus, happened: Sequence[Happened]
    ) -> None:
        """Replace a group's status."""
        key = group.head.key
        if self._objects.groups.get(key) is group:
            self._objects.groups[key] = replace(group, status=status)
            if status.epoch != group.status.epoch:
                self._publish(key)
                self._coordinate(key)
            for each in (*happened, *_recovered(group.status, status)):
                self._hear(key, each)
            self._changed(key, Loop.group_changed)

    def identity(self, group: ConsumerGroup) -> str:
        """Tell as what a group's driver is to run."""
        return _identity(self._job(group, self._prepared(group.head.key)))

    async def start_driver(self, group: ConsumerGroup) -> None:
        """Start the driver of a group's job."""
        found = self._prepared(group.head.key)
        job = self._job(group, found)
        self._publish(group.head.key)
        await found.start(job, _identity(job))

    async def stop_driver(self, group: ConsumerGroup) -> None:
        """Let the driver end after its batch."""
        self._prepared(group.head.key).stop()

    async def clear_driver(self, group: ConsumerGroup) -> None:
        """Clear away a driver that has ended."""
        self._prepared(group.head.key).clear()

    async def give_up_driver(self, group: ConsumerGroup) -> None:
        """Let it be: a process always tells how it is."""

    async def close(self) -> None:
        """End all jobs after their batches."""
        self.coordination.close()
        for each in self._drivers.values():
            await each.ended()

    def _prepared(self, key: Key) -> EmbeddedDriver:
        """Find the driver of a group, or make one that was never started."""
        found = self._drivers.get(key)
        if found is None:
            folder = self._folder / key.namespace / key.name
            folder.mkdir(parents=True, exist_ok=True)
            found = EmbeddedDriver(folder, lambda: self._changed(key, Loop.group_changed))
            self._drivers[key] = found
        return found

    def _publish(self, key: Key) -> None:
        """Let a job, if there is one, know the newest assignment."""
        if key in self._drivers:
            group = self._objects.groups[key]
            found = assignment.make_file(group.status, group.to_drain)
            driver.written(self._drivers[key].folder / names.ASSIGNMENT, found)

    def _coordinate(self, key: Key) -> None:
        """Let members, if the group has any, know the newest assignment."""
        group = self._objects.groups.get(key)
        if group is None:
            self.coordination.forget(key)
        else:
            self.coordination.follow(group, self._objects.topics)

    def _changed(self, key: Key, tell: Callable[[Loop, Key], None]) -> None:
        _write_status(self._folder / "status.json", self._objects)
        if self._loop is not None:
            tell(self._loop, key)

    def _job(self, group: ConsumerGroup, process: EmbeddedDriver) -> JobFile:
        folder = process.folder
        job = group.spec.job
        assert job is not None
        if job.checkpoint.url is None:
            raise ManifestError(
                f"{group}: there are no claims without Kubernetes; give spec.job.checkpoint.url"
            )
        topics = self._objects.topics
        places = Places(
            str(folder / names.ASSIGNMENT),
            str(folder / names.REPORT),
            job.checkpoint.url,
            {ref: self._python_file(group, ref, folder) for ref in job_file.refs(group)},
            {name: self._options_folder(group, name, folder) for name in job_file.secrets(group)},
            self._credentials(topics[group.topic_keys[0]]),
        )
        workers = process.room_for(job.executors)
        spark = driver.settings(job.executor, workers) | job.spark_conf
        if RESTART in group.head.annotations:
            spark["spark.evenkeel.restart"] = group.head.annotations[RESTART]
        # The assignment says how many executors there are, without a restart.
        return job_file.build(group, topics, places, spark, workers - driver.SPARE)

    def _python_file(self, group: ConsumerGroup, ref: KeyRef, folder: Path) -> str:
        key = group.beside(ref.name)
        text = self._objects.config_maps.get(key, {}).get(ref.key)
        if text is None:
            raise ManifestError(f"{group}: there is no ConfigMap {key} with an entry {ref.key}")
        path = folder / f"{ref.name}-{ref.key}"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def _options_folder(self, group: ConsumerGroup, name: str, folder: Path) -> str:
        """Write a Secret as a volume of a pod has it."""
        key = group.beside(name)
        if key not in self._objects.secrets:
            raise ManifestError(f"{group}: there is no Secret {key}, which a sink names")
        path = folder / f"options-{name}"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        for entry, text in self._objects.secrets[key].items():
            driver.write_private(path / entry, text)
        return str(path)

    def _credentials(self, topic: Topic) -> dict[str, str]:
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
        """Take over what has changed in the file; status stays, and a new spec is a generation."""
        stamp = self._file_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        found = manifests.read(self._file)
        old = self._objects
        self._objects = Manifests(
            {key: self._aged(topic, old.topics.get(key)) for key, topic in found.topics.items()},
            {key: self._aged(group, old.groups.get(key)) for key, group in found.groups.items()},
            found.config_maps,
            found.secrets,
        )
        for key in old.topics.keys() | found.topics.keys():
            self._changed(key, Loop.topic_changed)
        for key in old.groups.keys() & found.groups.keys():
            if old.groups[key].to_drain != found.groups[key].to_drain:
                self._publish(key)
        for key in old.groups.keys() | found.groups.keys():
            self._coordinate(key)
            self._changed(key, Loop.group_changed)

    def _file_stamp(self) -> tuple[int, int] | None:
        try:
            facts = self._file.stat()
        except OSError:
            return None  # reading it says why
        return facts.st_mtime_ns, facts.st_ino

    def _aged(self, found: Any, old: Any) -> Any:
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
        raise ManifestError(f"{path} cannot be read: {error}; epochs go on from it") from error
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
    driver.written(path, found)


def _trouble(topic: Topic, new: TopicStatus) -> Iterator[Happened]:
    """Tell what keeps a topic from being ready, once; groups say no more than that it is not."""
    before, now = (
        conditions.find(each.conditions, ConditionType.READY) for each in (topic.status, new)
    )
    if now is None or now.holds or (before is not None and before.reason == now.reason):
        return
    yield Happened(now.reason, f"{topic}: {now.message}", is_warning=True)


def _recovered(old: GroupStatus, new: GroupStatus) -> Iterator[Happened]:
    """Tell that all is well, once; what is not is told of as it happens."""
    before, now = (conditions.find(each.conditions, ConditionType.READY) for each in (old, new))
    if now is not None and now.holds and not (before is not None and before.holds):
        who = f"{new.queues} queues, {new.consumers} consumers"
        yield Happened(now.reason, f"{now.reason}: epoch {new.epoch}, {who}")


def _identity(job: JobFile) -> str:
    return hashlib.sha256(contract_job_file.encode(job).encode()).hexdigest()[:16]
