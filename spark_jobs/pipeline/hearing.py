"""
Hears a job's assignment: the status of its ConsumerGroup, watched and written to a file.

A file, because the driver is not alone: Spark keeps the plan source in a process of its own, and
both must follow the same assignment.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec

from contract import assignment, names
from contract.assignment import AssignmentFile, PublishedAssignment, Share
from mq_client.directory import Times
from spark_jobs.pipeline import kube
from spark_jobs.pipeline.assignments import replace_file
from spark_jobs.pipeline.kube import Api, KubeError

log = logging.getLogger("evenkeel.job")
GROUPS = f"/apis/{names.API_VERSION}"
WATCH_SECONDS = 30
"""The server ends a watch after so long."""
SILENCE_SECONDS = WATCH_SECONDS + 5.0
"""A watch that is silent for longer is dead."""
PATIENCE = Times(first_pause=0.2, longest_pause=10.0)
"""Before the next list."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str
    annotations: dict[str, str] = {}


class _Group(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: PublishedAssignment = PublishedAssignment()


class _Groups(msgspec.Struct, frozen=True):
    metadata: _Metadata
    items: list[_Group] = []


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: dict[str, Any]


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class Hearing:
    """Follows one ConsumerGroup."""

    def __init__(self, api: Api, namespace: str, name: str, file: Path) -> None:
        """Ask nothing yet."""
        self._api = api
        self._namespace = namespace
        self._name = f"ConsumerGroup {namespace}/{name}"
        self._path = kube.url_path(GROUPS, namespace, "consumergroups")
        self._only = {"fieldSelector": f"metadata.name={name}"}
        self._file = file
        self._epoch = 0
        self._written = b""
        self._slices: dict[str, list[Share]] = {}
        self._over = threading.Event()

    @contextmanager
    def kept_up(self) -> Iterator[None]:
        """Follow in a thread of its own, until left."""
        # Nobody waits for its end: it may be in the middle of a watch.
        threading.Thread(target=self._follow, name="hearing", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def _follow(self) -> None:
        pauses = PATIENCE.make_pauses()
        while not self._over.is_set():
            begun = time.monotonic()
            failure = self._failure()
            if time.monotonic() - begun > PATIENCE.longest_pause:
                pauses = PATIENCE.make_pauses()
            pause = next(pauses)
            if failure is not None:
                log.warning("%s is asked again in %g s: %s", self._name, pause, failure)
            self._over.wait(pause)

    def _failure(self) -> Exception | None:
        try:
            self.hear()
        except (KubeError, msgspec.MsgspecError, OSError) as error:
            return error
        return None

    def hear(self) -> None:
        """List, then watch until a watch has ended without a word, or something fails."""
        found = msgspec.convert(self._api.ask("GET", self._query({})), _Groups)
        for group in found.items:
            self._take(group)
        version = found.metadata.resource_version
        while version and not self._over.is_set():
            version = self._watch(version)

    def _watch(self, since: str) -> str:
        """Watch once; the version that was heard last, if any."""
        wanted = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        heard = ""
        for event in self._api.watch(self._query(wanted), SILENCE_SECONDS):
            if self._over.is_set():
                break
            heard = self._heard(msgspec.convert(event, _Event))
        return heard

    def _heard(self, event: _Event) -> str:
        if event.type == "ERROR":
            raise KubeError(f"the watch ends: {event.object.get('message')}")
        group = msgspec.convert(event.object, _Group)
        if event.type in ("ADDED", "MODIFIED"):
            self._take(group)
        elif event.type == "DELETED":
            log.warning("%s is deleted; the assignment stays as it is", self._name)
        return group.metadata.resource_version

    def _take(self, group: _Group) -> None:
        """Write down an assignment, if it is no older one, and who is to be drained."""
        status = group.status
        if not status.epoch:
            return  # nothing is published yet
        if status.epoch < self._epoch:
            log.warning(
                "%s: epoch %d is older than %d, which was heard; the assignment stays as it is",
                self._name, status.epoch, self._epoch,
            )  # fmt: skip
            return
        text = msgspec.json.encode(
            AssignmentFile(
                status.epoch,
                self._shares(status),
                assignment.list_drained(group.metadata.annotations),
            )
        )
        if text != self._written:
            replace_file(self._file, text)
            self._epoch, self._written = status.epoch, text

    def _shares(self, status: PublishedAssignment) -> list[Share]:
        if not status.slices:
            return status.assignments
        known = self._slices
        self._slices = {
            name: known[name] if name in known else self._slice(name) for name in status.slices
        }
        return [share for shares in self._slices.values() for share in shares]

    def _slice(self, name: str) -> list[Share]:
        path = kube.url_path("/api/v1", self._namespace, "configmaps", name)
        data = msgspec.convert(self._api.ask("GET", path), _ConfigMap).data
        if names.SLICE not in data:
            raise KubeError(f"ConfigMap {self._namespace}/{name} has no {names.SLICE}")
        return assignment.read_slice(data[names.SLICE])

    def _query(self, more: dict[str, str]) -> str:
        return f"{self._path}?{urlencode({**self._only, **more})}"
