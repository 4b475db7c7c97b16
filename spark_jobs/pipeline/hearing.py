"""
Watches a job's assignment, in the status of its ConsumerGroup, and writes it to a file.

The driver's loop reads that file (`assignments`), as it does outside of a cluster.
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
from spark_jobs.pipeline.kube import KubeApi, KubeError

log = logging.getLogger("evenkeel.job")
GROUPS = f"/apis/{names.API_VERSION}"
WATCH_SECONDS = 30
"""After this time the server ends a watch."""
SILENCE_SECONDS = WATCH_SECONDS + 5.0
"""A watch that receives nothing for longer is broken."""
PATIENCE = Times(first_pause=0.2, longest_pause=10.0)
"""The pauses before the group is listed again."""


class _WatchedMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str
    annotations: dict[str, str] = {}


class _WatchedGroup(msgspec.Struct, frozen=True):
    metadata: _WatchedMetadata
    status: PublishedAssignment = PublishedAssignment()


class _WatchedGroups(msgspec.Struct, frozen=True):
    metadata: _WatchedMetadata
    items: list[_WatchedGroup] = []


class _GroupEvent(msgspec.Struct, frozen=True):
    type: str
    object: dict[str, Any]


class _SliceConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class AssignmentWatcher:
    """Follows the assignment of one ConsumerGroup."""

    def __init__(self, api: KubeApi, namespace: str, name: str, file: Path) -> None:
        """Send no request yet."""
        self._api = api
        self._namespace = namespace
        self._name = f"ConsumerGroup {namespace}/{name}"
        self._path = kube.build_path(GROUPS, namespace, "consumergroups")
        self._only = {"fieldSelector": f"metadata.name={name}"}
        self._file = file
        self._epoch = 0
        self._written = b""
        self._slices: dict[str, list[Share]] = {}
        self._over = threading.Event()

    @contextmanager
    def run_in_thread(self) -> Iterator[None]:
        """Follow the assignment in a separate thread until the block ends."""
        # The thread is not joined at the end, because it may be in the middle of a watch.
        threading.Thread(target=self._keep_following, name="hearing", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def _keep_following(self) -> None:
        pauses = PATIENCE.make_pauses()
        while not self._over.is_set():
            begun = time.monotonic()
            failure = self._try_to_follow()
            if time.monotonic() - begun > PATIENCE.longest_pause:
                pauses = PATIENCE.make_pauses()
            pause = next(pauses)
            if failure is not None:
                log.warning("%s is read again in %g s: %s", self._name, pause, failure)
            self._over.wait(pause)

    def _try_to_follow(self) -> Exception | None:
        try:
            self.list_and_watch()
        except (KubeError, msgspec.MsgspecError, OSError) as error:
            return error
        return None

    def list_and_watch(self) -> None:
        """List the group. Then watch it until a watch ends without an event, or something fails."""
        found = msgspec.convert(self._api.ask("GET", self._build_path({})), _WatchedGroups)
        for group in found.items:
            self._write_if_new(group)
        version = found.metadata.resource_version
        while version and not self._over.is_set():
            version = self._watch(version)

    def _watch(self, since: str) -> str:
        """Watch once. Return the last resource version seen, or an empty string without events."""
        wanted = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        seen = ""
        for event in self._api.watch(self._build_path(wanted), SILENCE_SECONDS):
            if self._over.is_set():
                break
            seen = self._handle(msgspec.convert(event, _GroupEvent))
        return seen

    def _handle(self, event: _GroupEvent) -> str:
        if event.type == "ERROR":
            raise KubeError(f"the watch ends: {event.object.get('message')}")
        group = msgspec.convert(event.object, _WatchedGroup)
        if event.type in ("ADDED", "MODIFIED"):
            self._write_if_new(group)
        elif event.type == "DELETED":
            log.warning("%s is deleted; the assignment stays as it is", self._name)
        return group.metadata.resource_version

    def _write_if_new(self, group: _WatchedGroup) -> None:
        """Write the assignment, with the pods to drain, to the file. Ignore an older epoch."""
        status = group.status
        if not status.epoch:
            return  # nothing is published yet
        if status.epoch < self._epoch:
            log.warning(
                "%s: epoch %d is older than the known epoch %d; the assignment stays as it is",
                self._name, status.epoch, self._epoch,
            )  # fmt: skip
            return
        text = msgspec.json.encode(
            AssignmentFile(
                status.epoch,
                self._collect_shares(status),
                assignment.list_drained(group.metadata.annotations),
            )
        )
        if text != self._written:
            replace_file(self._file, text)
            self._epoch, self._written = status.epoch, text

    def _collect_shares(self, status: PublishedAssignment) -> list[Share]:
        if not status.slices:
            return status.assignments
        known = self._slices
        self._slices = {
            name: known[name] if name in known else self._fetch_slice(name)
            for name in status.slices
        }
        return [share for shares in self._slices.values() for share in shares]

    def _fetch_slice(self, name: str) -> list[Share]:
        path = kube.build_path("/api/v1", self._namespace, "configmaps", name)
        data = msgspec.convert(self._api.ask("GET", path), _SliceConfigMap).data
        if names.SLICE not in data:
            raise KubeError(f"ConfigMap {self._namespace}/{name} has no {names.SLICE}")
        return assignment.read_slice(data[names.SLICE])

    def _build_path(self, more: dict[str, str]) -> str:
        return f"{self._path}?{urlencode({**self._only, **more})}"
