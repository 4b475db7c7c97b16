"""Fill a real API server with the objects of one size, and change them as a cluster would."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator

import msgspec

from benchmarks.operator import objects
from benchmarks.operator.api import MERGE, Client, side_by_side
from benchmarks.operator.sizes import Size
from evenkeel import crds, manifests
from evenkeel.cluster.api import paths
from evenkeel.cluster.events import event_documents
from evenkeel.control.groups.group_status import Notice
from evenkeel.objects import Key
from sandbox import kubernetes
from sandbox.kubernetes import ApiRefusedError, Cluster

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_AT_ONCE = {"gracePeriodSeconds": 0}
_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.1


class Stage:
    """All objects of one cluster."""

    def __init__(self, client: Client, size: Size) -> None:
        """Prepare; nothing is created yet."""
        self._client = client
        self._size = size

    async def fill(self) -> None:
        """Create everything, with all pods ready and without an operator."""
        await asyncio.gather(*map(self._define, crds.KINDS))
        await asyncio.gather(*map(self._make_space, self._size.list_spaces()))
        await side_by_side(self._list_all())

    async def make_pod(self, key: Key, app: str) -> None:
        """Make a pod, which is not ready yet."""
        path = paths.build_list_path(paths.PODS, key.namespace)
        await self._client.ask("POST", path, objects.pod(key, app))

    async def set_ready(self, key: Key, *, ready: bool) -> None:
        """Set the readiness of a running pod."""
        path = f"{paths.build_path(paths.PODS, key)}/status"
        await self._client.ask("PATCH", path, objects.pod_status(ready=ready), MERGE)

    async def kill_pod(self, key: Key) -> None:
        """Delete a pod without a grace period."""
        await self._client.ask("DELETE", paths.build_path(paths.PODS, key), _AT_ONCE)

    async def pin(self, key: Key, pods: Iterable[Key]) -> None:
        """Pin a group to these pods."""
        await self._client.ask("PATCH", paths.build_path(paths.GROUPS, key), _pin(pods), MERGE)

    async def follow_pin(self, key: Key, pods: Iterable[Key]) -> None:
        """Pin a group, and make the writes that an operator would make."""
        path = paths.build_path(paths.GROUPS, key)
        found = msgspec.json.decode(await self._client.ask("PATCH", path, _pin(pods), MERGE))
        found["status"]["epoch"] += 1
        found["status"]["observedGeneration"] = found["metadata"]["generation"]
        await self._client.ask("PUT", f"{path}/status", found)
        told = event_documents.build_event(
            manifests.read_group(found), Notice("Rebalanced", "it moved")
        )
        await self._client.ask("POST", paths.build_list_path(paths.EVENTS, key.namespace), told)

    def _list_all(self) -> Iterator[Awaitable[None]]:
        for key in self._size.topic_keys():
            yield self._make(paths.TOPICS, key, objects.make_topic(key, self._size))
        for group in self._size.group_keys():
            yield self._make(paths.GROUPS, group, objects.make_group(group, self._size))
            for pod in self._size.list_pods(group):
                yield self._make_ready_pod(pod, group.name)

    async def _make(self, resource: paths.Resource, key: Key, body: objects.Document) -> None:
        await self._client.ask("POST", paths.build_list_path(resource, key.namespace), body)

    async def _make_ready_pod(self, key: Key, app: str) -> None:
        await self.make_pod(key, app)
        await self.set_ready(key, ready=True)

    async def _make_space(self, name: str) -> None:
        await self._client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        path = f"/api/v1/namespaces/{name}/serviceaccounts"
        await self._client.ask("POST", path, {"metadata": {"name": "default"}})

    async def _define(self, kind: crds.CrdKind) -> None:
        """Create a definition, and wait until the API server serves the kind."""
        await self._client.ask("POST", _DEFINITIONS, crds.build_definition(kind))
        resource = next(each for each in (paths.TOPICS, paths.GROUPS) if each[2] == kind.plural)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                with contextlib.suppress(ApiRefusedError):
                    await self._client.ask("GET", paths.build_list_path(resource, None))
                    return
                await asyncio.sleep(_PAUSE_SECONDS)


def _pin(pods: Iterable[Key]) -> objects.Document:
    return {"spec": {"strategy": {"pinnedConsumers": [pod.name for pod in pods]}}}


@contextlib.asynccontextmanager
async def fill(size: Size) -> AsyncIterator[tuple[Cluster, Client, Stage]]:
    """Run an API server, and create all objects of a cluster of this size."""
    with kubernetes.run() as cluster:
        async with Client(cluster.admin.kubeconfig) as client:
            stage = Stage(client, size)
            await stage.fill()
            yield cluster, client, stage
