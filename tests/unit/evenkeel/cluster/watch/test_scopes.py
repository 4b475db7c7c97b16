"""Independent lists and watches: which are refused, how old they are, and what probes report."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

import kopf
import msgspec
import pytest
from aiohttp import web
from kopf._cogs.clients import api as kopfs
from kopf._cogs.clients import auth

from evenkeel.cluster import rate_limiter
from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_client import Api
from evenkeel.cluster.api.api_errors import ApiError, AwayError, ForbiddenError
from evenkeel.cluster.api.lists import Heads, Whole
from evenkeel.cluster.watch import kopf_watches
from evenkeel.cluster.watch.object_cache import ObjectCache
from evenkeel.cluster.watch.resync import Resync, ResyncPace
from evenkeel.cluster.watch.scopes import SICK_ROUNDS, STALE_SECONDS, Scopes, WatchedKind
from evenkeel.objects import Key

QUICK = ResyncPace(compare=0.01, glance=0.01, again=0.01, first_again=0.01, late=0.0)
A, B = "team-a", "team-b"


def kind(changed: Callable[[Key], None] = lambda key: None, **fields: Any) -> WatchedKind:
    return WatchedKind(
        fields.pop("resource", paths.PODS), ObjectCache(lambda body: body), changed, **fields
    )


def no_rights(path: str) -> ForbiddenError:
    return ForbiddenError(f"GET {path}: no right to list pods")


class Lists:
    """An API server with one pod in each namespace."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}
        """By part of a path: the error of requests whose path contains it."""
        self.asked: list[str] = []
        self.was_asked = asyncio.Event()
        self.version = 1
        self.changes = False
        """Whether each list has newer versions of the pods than the list before."""

    def _items(self, path: str) -> list[dict[str, Any]]:
        self.asked.append(path)
        self.was_asked.set()
        for part, error in self.errors.items():
            if part in path:
                raise error
        namespace, version = path.split("/")[4], str(self.version)
        self.version += self.changes
        return [{"metadata": {"name": "x", "namespace": namespace, "resourceVersion": version}}]

    async def get_page(self, path: str, query: Mapping[str, str]) -> Whole:
        return msgspec.convert({"metadata": {}, "items": self._items(path)}, Whole)

    async def get_heads(self, path: str, query: Mapping[str, str]) -> Heads:
        return msgspec.convert({"metadata": {}, "items": self._items(path)}, Heads)

    async def until_asked(self, part: str) -> None:
        """Wait until a further request with this part in its path has been answered."""
        self.asked.clear()
        while len([each for each in self.asked if part in each]) < 2:
            self.was_asked.clear()
            await self.was_asked.wait()


def resync(lists: Lists, *kinds: WatchedKind) -> Resync:
    return Resync(cast("Api", lists), kinds, [A, B], QUICK)


@contextlib.asynccontextmanager
async def running(found: Resync) -> AsyncIterator[None]:
    task = asyncio.create_task(found.run())
    async with asyncio.timeout(30):
        yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_namespace_without_rights_is_left_out_and_taken_up_when_it_has_them() -> None:
    async def body() -> None:
        told: list[Key] = []
        lists, pods = Lists(), kind(told.append)
        lists.errors[B] = no_rights(B)
        found = resync(lists, pods)
        await found.begin()
        assert pods.cache.list_keys() == {Key(A, "x")}
        assert found.scopes.explain_not_ready() == ""
        assert found.scopes.list_refused() == {A: False, B: True}
        assert found.scopes.explain_unseen(A) is None
        assert "may not list the pods of namespace team-b" in (found.scopes.explain_unseen(B) or "")
        async with running(found):
            lists.errors.clear()
            await lists.until_asked(B)
        assert found.scopes.explain_unseen(B) is None
        assert Key(B, "x") in told

    asyncio.run(body())


def test_rights_that_are_taken_are_told_to_what_rests_on_them_and_so_is_their_return() -> None:
    async def body() -> None:
        told: list[Key] = []
        lists, pods = Lists(), kind(told.append)
        found = resync(lists, pods)
        await found.begin()
        told.clear()
        async with running(found):
            lists.errors[B] = no_rights(B)
            await lists.until_asked(B)
            assert told == [Key(B, "x")]
            assert found.scopes.explain_unseen(B)
            assert found.scopes.explain_not_ready() == ""
            lists.errors.clear()
            await lists.until_asked(B)
        assert told == [Key(B, "x")] * 2

    asyncio.run(body())


@pytest.mark.parametrize(
    "error", [AwayError("nobody answers"), ApiError("later")], ids=["nothing", "503"]
)
def test_an_api_server_that_is_away_makes_nobody_blind_and_not_ready(error: Exception) -> None:
    async def body() -> None:
        lists = Lists()
        found = resync(lists, kind())
        await found.begin()
        async with running(found):
            lists.errors["pods"] = error
            await lists.until_asked(B)
            assert str(error) in found.scopes.explain_not_ready()
            assert found.scopes.explain_unseen(B) is None
            assert found.why_sick == ""
            lists.errors.clear()
            await lists.until_asked(B)
            await lists.until_asked(A)
            assert found.scopes.explain_not_ready() == ""

    asyncio.run(body())


def test_rights_on_nodes_are_waited_for_as_queues_would_move_without_zones() -> None:
    async def body() -> None:
        lists = Lists()
        lists.errors["nodes"] = no_rights("nodes")
        found = resync(lists, kind(), kind(resource=paths.NODES, is_namespaced=False))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await found.begin()
        assert found.scopes.explain_not_ready() == "some objects have not been listed yet"
        assert found.scopes.explain_unseen(A) is None

    asyncio.run(body())


def test_health_goes_by_the_age_of_lists_and_not_by_namespaces_without_rights() -> None:
    scopes = Scopes([kind()], [A, B], now=1000.0)
    first, second = scopes.all
    second.note_error(no_rights(B))
    first.note_list(1100.0)
    assert scopes.measure_age(1130.0) == 30.0
    assert scopes.explain_sick(1100.0 + STALE_SECONDS) == ""
    assert scopes.explain_sick(1101.0 + STALE_SECONDS) == "the last list is 301 s old"
    first.note_error(no_rights(A))
    assert scopes.measure_age(1130.0) == 130.0  # no list is allowed: all ages count
    assert "no right to list" in scopes.explain_not_ready()


def test_a_watch_of_one_scope_that_misses_changes_again_and_again_makes_sick() -> None:
    scopes = Scopes([kind()], [A, B], now=0.0)
    scopes.all[1].rounds_missed = 3
    assert scopes.explain_sick(1.0) == (
        "the watch does not report changes of the pods of namespace team-b"
    )


def test_watches_that_hang_are_found_out_by_lists_and_make_sick_until_they_tell_again() -> None:
    """Each list has newer objects than the list before, and no watch ever reports them."""

    async def body() -> None:
        lists = Lists()
        found = resync(lists, kind())
        await found.begin()

        async def until_sick(wanted: bool) -> None:
            while bool(found.why_sick) != wanted:
                lists.was_asked.clear()
                await lists.was_asked.wait()

        async with running(found):
            lists.changes = True
            await until_sick(True)
            assert "the watch does not report changes of the pods of namespace" in found.why_sick
            assert found.missed >= SICK_ROUNDS
            lists.changes = False
            await until_sick(False)

    asyncio.run(body())


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_kopf_asks_on_for_ever(status: int, caplog: pytest.LogCaptureFixture) -> None:
    """This runs kopf's own code, which gives up after nine attempts by default."""
    settings = kopf.OperatorSettings()
    kopfs_logger = logging.getLogger("kopf._cogs.clients.watching")
    kopf_watches.be_patient(settings)
    settings.networking.error_backoffs = kopf_watches.EndlessPauses(0.0, 0.0)
    asked = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.json_response({"asked": asked}, status=status if asked < 40 else 200)

    async def body() -> object:
        app = web.Application()
        app.router.add_get("/x", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        context = auth.APIContext(kopf.ConnectionInfo(server=f"http://127.0.0.1:{port}"))
        try:
            response = await kopfs.request(
                "get", "/x", settings=settings, context=context, logger=kopfs_logger
            )
            return await response.json()
        finally:
            await context.close()
            await runner.cleanup()

    assert asyncio.run(body()) == {"asked": 40}
    attempts = [each for each in caplog.messages if "will retry" in each]
    assert len(attempts) <= rate_limiter.AT_ONCE, "each attempt is logged"


def test_pauses_of_a_watch_grow_to_seconds_and_no_further() -> None:
    pauses = iter(kopf_watches.EndlessPauses(0.5, 4.0))
    first = [next(pauses) for _ in range(100)]
    assert 0.4 <= first[0] <= 0.5
    assert all(3.2 <= each <= 4.0 for each in first[4:])
