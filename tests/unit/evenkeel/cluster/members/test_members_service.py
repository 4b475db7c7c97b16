"""What a leader writes so that members find and trust it, whatever the API server answers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from contract.kinds.groups import GroupSpec, GroupStatus
from evenkeel.cluster.api.api_client import Api, Document
from evenkeel.cluster.api.api_errors import AwayError, ConflictError, NotFoundError
from evenkeel.cluster.members import documents, members_service
from evenkeel.cluster.members.documents import Place
from evenkeel.cluster.members.members_service import MembersService
from evenkeel.members.coordination import Coordination
from evenkeel.members.doors import TokenDoor
from evenkeel.objects import ConsumerGroup, Head, Key

SERVICE = Key("evenkeel", "evenkeel-members")
SECRET = "/api/v1/namespaces/evenkeel/secrets/evenkeel-members-tls"
ENDPOINTS = "/apis/discovery.k8s.io/v1/namespaces/evenkeel/endpointslices/evenkeel-members-leader"


def name_trust(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/evenkeel-members"


@dataclass
class ScriptedApi:
    """Keeps objects by path; paths in `broken` cannot be written."""

    objects: dict[str, Document] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    written: list[str] = field(default_factory=list)

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Document:
        if path not in self.objects:
            raise NotFoundError(path)
        return self.objects[path]

    async def create(self, path: str, document: Document) -> Document:
        place = f"{path}/{document['metadata']['name']}"
        if place in self.objects:
            raise ConflictError(place)
        return await self.replace(place, document)

    async def replace(self, path: str, document: Document) -> Document:
        if path in self.broken:
            raise AwayError(f"{path} cannot be written")
        self.written.append(path)
        version = str(len(self.written))
        metadata = {**document["metadata"], "resourceVersion": version}
        self.objects[path] = {**document, "metadata": metadata}
        return self.objects[path]

    async def apply(self, path: str, document: Document) -> Document:
        return await self.replace(path, document)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members_service, "RETRY_SECONDS", 0.01)


def play(api: ScriptedApi, story: Callable[[Coordination], Awaitable[None]]) -> None:
    async def run() -> None:
        coordination = Coordination(lambda key: None)
        place = Place(SERVICE, "10.0.0.1", 0)
        service = MembersService(
            cast(Api, api), place, coordination, TokenDoor("t"), lambda key, refusal: None
        )
        serving = asyncio.create_task(service.run())
        await asyncio.sleep(0)
        try:
            await story(coordination)
        finally:
            coordination.close()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(run())


def follow(coordination: Coordination, namespace: str) -> None:
    spec: dict[str, Any] = {"topics": [{"name": "orders"}], "consumers": {"members": {}}}
    head = Head(Key(namespace, "billing"))
    group = ConsumerGroup(head, msgspec.convert(spec, GroupSpec), GroupStatus())
    coordination.follow(group, {})


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110  # what it waits for sets no event
            await asyncio.sleep(0.005)


def test_nothing_is_written_before_a_group_has_members() -> None:
    api = ScriptedApi()

    async def story(coordination: Coordination) -> None:
        await asyncio.sleep(0.05)
        assert api.written == []
        follow(coordination, "shop")
        await until(lambda: name_trust("shop") in api.objects)
        assert api.written == [SECRET, ENDPOINTS, name_trust("shop")]
        follow(coordination, "mall")
        await until(lambda: name_trust("mall") in api.objects)
        assert api.written[3:] == [name_trust("mall")]

    play(api, story)


def test_the_next_leader_uses_the_same_certificates() -> None:
    api = ScriptedApi()

    async def story(coordination: Coordination) -> None:
        follow(coordination, "shop")
        await until(lambda: name_trust("shop") in api.objects)

    play(api, story)
    kept = api.objects[SECRET]["data"]
    play(api, story)
    assert api.objects[SECRET]["data"] == kept
    assert api.written.count(SECRET) == 1


def test_a_config_map_of_somebody_else_is_left_as_it_is() -> None:
    theirs: Document = {"metadata": {"name": "evenkeel-members"}, "data": {"a": "b"}}
    api = ScriptedApi({name_trust("shop"): theirs})

    async def story(coordination: Coordination) -> None:
        follow(coordination, "shop")
        follow(coordination, "mall")
        await until(lambda: name_trust("mall") in api.objects)
        assert api.objects[name_trust("shop")] is theirs

    play(api, story)


def test_a_namespace_that_cannot_be_written_holds_up_no_other_and_is_tried_again() -> None:
    api = ScriptedApi(broken={name_trust("mall")})

    async def story(coordination: Coordination) -> None:
        follow(coordination, "mall")
        follow(coordination, "shop")
        await until(lambda: name_trust("shop") in api.objects)
        api.broken.clear()
        await until(lambda: name_trust("mall") in api.objects)
        assert api.written.count(name_trust("shop")) == 1

    play(api, story)


def test_a_secret_that_cannot_be_kept_is_tried_again_before_anybody_is_served() -> None:
    """Otherwise the next leader would make another authority, which no member trusts."""
    api = ScriptedApi(broken={SECRET})

    async def story(coordination: Coordination) -> None:
        follow(coordination, "shop")
        await asyncio.sleep(0.1)
        assert api.written == []
        api.broken.clear()
        await until(lambda: name_trust("shop") in api.objects)

    play(api, story)


def test_a_damaged_secret_is_replaced() -> None:
    damaged: Document = {"metadata": {"resourceVersion": "5"}, "data": {"tls.key": "%%%"}}
    api = ScriptedApi({SECRET: damaged})

    async def story(coordination: Coordination) -> None:
        follow(coordination, "shop")
        await until(lambda: name_trust("shop") in api.objects)
        assert documents.read_secret(api.objects[SECRET]) is not None

    play(api, story)
