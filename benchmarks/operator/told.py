"""
Watches objects: finds when they show an expected state, and counts the writes.

To keep the watch fast, it decodes only what it needs.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from benchmarks.operator.api import Client
from evenkeel.cluster.api import paths
from evenkeel.objects import Key
from lb_core.assignment import parse_ids
from sandbox.process import SandboxError


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str
    name: str = ""
    namespace: str = ""
    generation: int = 0


class _Queues(msgspec.Struct):
    topic: str
    broker: str
    ids: str


class _Assigned(msgspec.Struct):
    consumer: str
    queues: list[_Queues] = []


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    observed_generation: int = 0
    assignments: list[_Assigned] = []


class Object(msgspec.Struct):
    """The decoded part of a Topic or a ConsumerGroup."""

    metadata: _Metadata
    status: _Status = _Status()

    @property
    def key(self) -> Key:
        """Return the object's key."""
        return Key(self.metadata.namespace, self.metadata.name)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[Object]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The expected state of a group's status."""

    owners: frozenset[str]
    queues: int
    """How many queues there are, each with exactly one owner."""

    def is_shown_by(self, found: Object) -> bool:
        """Whether a status shows this state, and belongs to the newest spec."""
        if found.status.observed_generation != found.metadata.generation:
            return False
        owned = [
            queue
            for each in found.status.assignments
            for queues in each.queues
            for run in parse_ids(queues.topic, queues.broker, queues.ids)
            for queue in run
        ]
        owners = {each.consumer for each in found.status.assignments if each.queues}
        return owners == self.owners and len(owned) == len(set(owned)) == self.queues


class Watch:
    """Watches all objects of one kind."""

    def __init__(self, client: Client, resource: paths.Resource) -> None:
        """Prepare the watch."""
        self._client = client
        self._path = paths.build_list_path(resource, None)
        self._versions: dict[Key, str] = {}
        self._awaited: dict[Key, tuple[Wanted, asyncio.Future[float]]] = {}
        self.changes = 0
        """The number of changes."""
        self.last_at = 0.0
        """The time of the last change."""

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Watch until the context is left."""
        found = await self._list()
        self._versions = {each.key: each.metadata.resource_version for each in found.items}
        task = asyncio.create_task(self._follow(found.metadata.resource_version))
        task.add_done_callback(self._give_up)
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def await_shown(self, key: Key, wanted: Wanted) -> asyncio.Future[float]:
        """Return a future for the time at which an object shows a state."""
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._awaited[key] = wanted, future
        return future

    async def check_complete(self) -> None:
        """Compare the watch with a list: a watch that misses changes would count too few writes."""
        found = await self._list()
        versions = {each.key: each.metadata.resource_version for each in found.items}
        if versions != self._versions:
            raise SandboxError(f"the watch of {self._path} has missed changes")

    async def _list(self) -> _List:
        return msgspec.json.decode(await self._client.ask("GET", self._path), type=_List)

    async def _follow(self, version: str) -> None:
        event, body = msgspec.json.Decoder(_Event), msgspec.json.Decoder(Object)
        while True:  # a server may end a watch at any time
            async for line in self._client.watch(self._path, version):
                told = event.decode(line)
                if told.type not in ("ADDED", "MODIFIED"):
                    raise SandboxError(f"the watch of {self._path} reports: {line.decode()[:300]}")
                found = body.decode(told.object)
                version = found.metadata.resource_version
                self._take(found)

    def _take(self, found: Object) -> None:
        now = time.perf_counter()
        self.changes += 1
        self.last_at = now
        self._versions[found.key] = found.metadata.resource_version
        wanted, future = self._awaited.get(found.key, (None, None))
        if wanted and future and wanted.is_shown_by(found):
            del self._awaited[found.key]
            future.set_result(now)

    def _give_up(self, task: asyncio.Task[Any]) -> None:
        """Fail the waits that can no longer succeed."""
        error = None if task.cancelled() else task.exception()
        for _, future in self._awaited.values():
            if error and not future.done():
                future.set_exception(error)
