"""An operator starts nothing while another one might lead, and deletes only its own objects."""

import asyncio
from collections.abc import Mapping
from typing import Any

import kopf
import pytest

from contract.kinds.groups import GroupStatus
from evenkeel import manifests
from evenkeel.cluster.api.api_client import Api, ApiRequest
from evenkeel.cluster.api.api_errors import AwayError
from evenkeel.cluster.leader.fence import Fence, LostLeadError
from evenkeel.cluster.leader.leader_lease import LeaderLease
from evenkeel.cluster.leader.lease_terms import LeaderTerms
from evenkeel.cluster.watch.cluster_cache import ClusterCache
from evenkeel.cluster.world import ClusterWorld
from evenkeel.objects import Key

Document = dict[str, Any]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Recorder(Api):
    """Records requests, and sends none of them."""

    def __init__(self, fence: Fence | None = None) -> None:
        super().__init__(lambda: kopf.ConnectionInfo(server="http://127.0.0.1:1"), fence)
        self.asked: list[tuple[str, str, Document | None]] = []

    async def ask_unfenced(self, request: ApiRequest) -> Document:
        self.asked.append((request.method, request.path, request.body))
        return request.body or {}


def test_a_fence_is_open_until_the_last_moment_to_begin_and_tells_how_long_that_may_take() -> None:
    clock = Clock()
    fence = Fence(clock)
    fence.open(110.0, 115.0)
    clock.now = 109.0
    assert fence.count_seconds_left() == 6.0
    clock.now = 110.0
    with pytest.raises(LostLeadError, match="no longer leads"):
        fence.count_seconds_left()


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE"])
def test_who_leads_no_more_reads_and_writes_nothing(method: str) -> None:
    clock = Clock()
    fence = Fence(clock)
    client = Recorder(fence)
    fence.open(110.0, 115.0)

    async def body() -> None:
        await client.ask(ApiRequest(method, "/x"))
        clock.now = 111.0
        with pytest.raises(LostLeadError):
            await client.ask(ApiRequest(method, "/x"))
        await client.ask(ApiRequest("GET", "/x"))

    asyncio.run(body())
    assert [each[0] for each in client.asked] == [method, "GET"]


def test_a_write_that_is_not_answered_until_somebody_else_may_lead_has_failed() -> None:
    class Silent(Recorder):
        async def ask_unfenced(self, request: ApiRequest) -> Document:
            await asyncio.Event().wait()
            return {}

    clock = Clock()
    fence = Fence(clock)
    fence.open(110.0, 100.05)

    async def body() -> None:
        with pytest.raises(AwayError, match="PUT /x in time"):
            await Silent(fence).ask(ApiRequest("PUT", "/x"))

    asyncio.run(body())


def test_a_candidate_may_write_while_it_leads_only() -> None:
    fence = Fence()
    seen: list[bool] = []

    def is_open() -> bool:
        try:
            return fence.count_seconds_left() > 0
        except LostLeadError:
            return False

    class Free(Recorder):
        """An API server with a Lease that is free, but cannot be renewed."""

        async def get(self, path: str, query: Mapping[str, str] | None = None) -> Document:
            if seen:
                raise AwayError("nobody answers")
            return {"spec": {}}

    async def body() -> None:
        lease = LeaderLease(Free(), Key("here", "it"), "me", LeaderTerms(0.3, 0.2, 0.05), fence)
        assert not is_open()
        ended = asyncio.Event()

        async def begin() -> None:
            seen.append(True)

        async def end() -> None:
            ended.set()

        keeping = asyncio.create_task(lease.keep(begin, end))
        await ended.wait()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    asyncio.run(body())
    assert seen == [True]
    assert not is_open()


def slice_body(name: str, uid: str) -> Document:
    labels = {"evenkeel.dev/group": "orders"}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid,
        "resourceVersion": "7",
        "labels": labels,
    }
    return {"metadata": metadata, "data": {"assignments.json": "[]"}}


def test_a_slice_of_a_later_epoch_is_not_deleted_and_an_older_one_only_if_it_is_the_same() -> None:
    client, cache = Recorder(), ClusterCache()
    world = ClusterWorld(client, cache, "x:1")
    group = manifests.read_group(
        {
            "metadata": {"name": "orders", "namespace": "default", "uid": "7"},
            "spec": {"topics": [{"name": "orders"}], "consumers": {"static": [{"id": "a"}]}},
        }
    )
    for number in (4, 5, 6):
        name = f"orders-epoch-{number}-aaaaaaaa"
        cache.config_maps.take(slice_body(name, f"uid-{number}"))
    status = GroupStatus(epoch=5, slices=["orders-epoch-5-aaaaaaaa"])
    asyncio.run(world._clear_slices(group, status))
    ((method, path, body),) = client.asked
    assert (method, path.rpartition("/")[2]) == ("DELETE", "orders-epoch-4-aaaaaaaa")
    assert body == {"preconditions": {"uid": "uid-4"}}
