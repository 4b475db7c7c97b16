"""Requests to the coordinator: their bytes, and the error for each fault."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from aiohttp import web

from contract.following import Asked, MemberRequest
from follower.asking import Coordinator
from follower.asks import NoAnswerError, RefusedError
from follower.options import FollowerError
from follower.trust import TrustFile
from mq_client.values import MessageQueue

ASKED = Asked("s1", 3, 2, frozenset({MessageQueue("orders", "broker-a", 1)}))
ANSWER = {
    "epoch": 7, "revision": 3, "grants": [{"topic": "orders", "broker": "broker-a", "ids": "0-1"}],
    "sessionSeconds": 10, "drainSeconds": 30, "onOutage": "Stop",
    "source": {"group": "billing", "nameServers": ["mq:9876"]},
}  # fmt: skip
Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def answer(_: web.Request) -> web.StreamResponse:
    return web.json_response(ANSWER)


def play(
    reply: Reply,
    story: Callable[[Coordinator], Coroutine[Any, Any, None]],
    token_file: Path | None = None,
    member: str = "a/b",
) -> None:
    async def run() -> None:
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", reply)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        try:
            async with Coordinator(url, "shop/billing", member, token_file) as coordinator:
                await story(coordinator)
        finally:
            await runner.cleanup()

    asyncio.run(run())


def test_a_request_is_as_the_contract_has_it(tmp_path: Path) -> None:
    heard: list[tuple[str, str | None, MemberRequest]] = []
    token = tmp_path / "token"
    token.write_text("secret\n")

    async def hear(request: web.Request) -> web.StreamResponse:
        body = msgspec.json.decode(await request.read(), type=MemberRequest)
        heard.append((request.rel_url.raw_path, request.headers.get("Authorization"), body))
        return web.json_response(ANSWER)

    async def story(coordinator: Coordinator) -> None:
        found = await coordinator.ask(ASKED, 3.0, 5.0)
        assert (found.epoch, found.source.name_servers) == (7, ["mq:9876"])
        token.write_text("renewed")
        await coordinator.ask(ASKED, 3.0, 5.0)

    play(hear, story, token)
    path, authorization, request = heard[0]
    assert path == "/v1/groups/shop/billing/members/a%2Fb"
    assert authorization == "Bearer secret"
    assert (request.session, request.number, request.revision) == ("s1", 3, 2)
    assert [(each.topic, each.ids) for each in request.holds] == [("orders", "1")]
    assert heard[1][1] == "Bearer renewed"


def test_leaving_names_the_session() -> None:
    heard: list[str] = []

    async def hear(request: web.Request) -> web.StreamResponse:
        heard.append(f"{request.method} {request.rel_url}")
        return web.Response(status=204)

    play(hear, lambda coordinator: coordinator.leave("s1"), member="a")
    assert heard == ["DELETE /v1/groups/shop/billing/members/a?session=s1"]


def test_a_refusal_tells_its_reason() -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.json_response({"reason": "AnotherSession", "message": "it is alive"}, status=409)

    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(RefusedError, match=r"it is alive \(AnotherSession\)") as refused:
            await coordinator.ask(ASKED, 3.0, 5.0)
        assert (refused.value.status, refused.value.reason) == (409, "AnotherSession")

    play(refuse, story)


def page(status: int, text: str) -> Reply:
    async def reply(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text)

    return reply


async def answer_in_latin_1(_: web.Request) -> web.StreamResponse:
    return web.Response(status=502, body='{"reason": "är", "message": ""}'.encode("latin-1"))


async def redirect(_: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://elsewhere.example/")


async def be_slow(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(5)
    return web.Response()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (page(200, "<html>"), "the answer cannot be read"),
        (page(200, "{}"), "the answer cannot be read"),
        (page(502, "bad gateway"), "answers 502 and no reason: is it a coordinator?"),
        (answer_in_latin_1, "answers 502 and no reason"),
        (page(200, "x" * (9 << 20)), "answers with more than 8,388,608 bytes"),
        (redirect, "answers 302 and no reason"),
        (be_slow, "did not answer within 0.3 s"),
    ],
    ids=["page", "empty", "gateway", "latin-1", "endless", "redirect", "slow"],
)
def test_what_is_no_answer_says_what_it_is(reply: Reply, said: str) -> None:
    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(NoAnswerError, match=said.replace("?", r"\?")):
            await coordinator.ask(ASKED, 3.0, 0.3)

    play(reply, story)


def test_a_coordinator_that_is_away_is_named() -> None:
    async def story() -> None:
        async with Coordinator("http://127.0.0.1:1", "shop/billing", "a", None) as coordinator:
            with pytest.raises(
                NoAnswerError, match=r"127\.0\.0\.1:1 cannot be reached: Connection refused"
            ):
                await coordinator.ask(ASKED, 3.0, 0.3)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("url", "group", "token", "said"),
    [
        ("localhost:9410", "shop/billing", None, "give a URL"),
        ("http://localhost:9410", "billing", None, "give NAMESPACE/NAME"),
        ("http://localhost:9410", "shop/billing", "", "holds no token"),
        ("http://localhost:9410", "shop/billing", "two\nlines", "holds no token"),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    url: str, group: str, token: str | None, said: str, tmp_path: Path
) -> None:
    file = None
    if token is not None:
        file = tmp_path / "token"
        file.write_text(token)
    with pytest.raises(FollowerError, match=said):
        Coordinator(url, group, "a", file)


def test_a_token_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FollowerError, match=r"the token cannot be read: .*missing"):
        Coordinator("http://localhost", "shop/billing", "a", tmp_path / "missing")


def test_a_coordinator_is_trusted_by_the_authorities_of_a_file_that_may_be_renewed(
    tmp_path: Path,
) -> None:
    first, second = trustme.CA(), trustme.CA()
    file = tmp_path / "ca.crt"
    second.cert_pem.write_to_path(str(file))

    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(NoAnswerError, match=r"it is not trusted: .*; see --ca-file"):
            await coordinator.ask(ASKED, 0.0, 5.0)
        file.write_text("")  # the token is just being renewed
        with pytest.raises(NoAnswerError, match="cannot be used"):
            await coordinator.ask(ASKED, 0.0, 5.0)
        first.cert_pem.write_to_path(str(file))
        assert (await coordinator.ask(ASKED, 0.0, 5.0)).epoch == 7

    async def run() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        first.issue_cert("localhost").configure_cert(context)
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        url = f"https://localhost:{runner.addresses[0][1]}"
        try:
            async with Coordinator(url, "shop/billing", "a", None, file) as coordinator:
                await story(coordinator)
        finally:
            await runner.cleanup()

    asyncio.run(run())


@pytest.mark.parametrize("text", [None, "no certificate"])
def test_authorities_that_cannot_be_read_are_said_at_once(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "ca.crt"
    if text is not None:
        file.write_text(text)
    with pytest.raises(FollowerError, match="authorities"):
        TrustFile(file)
