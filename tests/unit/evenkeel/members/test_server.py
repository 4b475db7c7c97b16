"""Members over HTTP: the answers to valid requests, and to every kind of invalid one."""

import asyncio
import io
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec

from contract.following import MOST_REQUEST_BYTES
from contract.kinds.groups import Assigned, GroupSpec, GroupStatus, OwnedQueues
from contract.kinds.topics import TopicSpec, TopicStatus
from evenkeel.members import server
from evenkeel.members.coordination import Coordination
from evenkeel.members.doors import TokenDoor
from evenkeel.objects import ConsumerGroup, Head, Key, Topic

TOKEN = "secret"
BILLING, ORDERS = Key("default", "billing"), Key("default", "orders")
OWNED = [OwnedQueues("orders", "broker-a", "0-1")]
FIRST = {"session": "s", "number": 1, "waitSeconds": 0}
Ask = Callable[..., Awaitable[tuple[int, dict[str, Any]]]]


def billing(session: str = "600s") -> ConsumerGroup:
    spec: dict[str, Any] = {"topics": [{"name": "orders", "filter": {"tags": "paid"}}]}
    spec |= {"consumers": {"members": {"session": session}}}
    status = GroupStatus(epoch=3, assignments=[Assigned("a", queues=OWNED)])
    return ConsumerGroup(Head(BILLING), msgspec.convert(spec, GroupSpec), status)


def orders() -> Topic:
    spec = msgspec.convert({"nameServers": ["mq:9876"]}, TopicSpec)
    return Topic(Head(ORDERS), spec, TopicStatus())


def play(story: Callable[[Ask, Coordination], Awaitable[None]]) -> None:
    """Play a story with a server that has run for longer than a session."""

    async def run() -> None:
        passed = 0.0
        coordination = Coordination(lambda key: None, lambda: time.monotonic() + passed)
        coordination.follow(billing(), {ORDERS: orders()})
        passed = 601.0
        async with (
            server.serve(coordination, TokenDoor(TOKEN), server.open_port(0)) as port,
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
        ):

            async def ask(
                body: Any,
                member: str = "a",
                group: str = "default/billing",
                token: str = TOKEN,
                method: str = "POST",
                query: str = "",
                encoding: str = "identity",
            ) -> tuple[int, dict[str, Any]]:
                data = body if isinstance(body, bytes | io.BytesIO) else msgspec.json.encode(body)
                headers = {"Authorization": f"Bearer {token}", "Content-Encoding": encoding}
                path = f"/v1/groups/{group}/members/{member}{query}"
                async with client.request(method, path, data=data, headers=headers) as answer:
                    found = await answer.read()
                    return answer.status, msgspec.json.decode(found) if found else {}

            await story(ask, coordination)
        coordination.close()

    asyncio.run(run())


def test_a_member_learns_what_it_may_read_and_where() -> None:
    async def story(ask: Ask, _: Coordination) -> None:
        status, answer = await ask(FIRST)
        assert status == HTTPStatus.OK
        assert answer["grants"] == [{"topic": "orders", "broker": "broker-a", "ids": "0-1"}]
        assert (answer["epoch"], answer["sessionSeconds"], answer["onOutage"]) == (3, 600.0, "Stop")
        assert answer["source"] == {
            "group": "billing",
            "nameServers": ["mq:9876"],
            "tags": {"orders": "paid"},
            "sql": {},
        }

    play(story)


def test_news_end_the_wait() -> None:
    async def story(ask: Ask, coordination: Coordination) -> None:
        await ask(FIRST)
        waiting = asyncio.ensure_future(
            ask({"session": "s", "number": 2, "revision": 1, "waitSeconds": 60})
        )
        await asyncio.sleep(0)
        gone = msgspec.structs.replace(billing().status, epoch=4, assignments=[])
        group = ConsumerGroup(Head(BILLING), billing().spec, gone)
        coordination.follow(group, {ORDERS: orders()})
        status, answer = await waiting
        assert (status, answer["epoch"], answer["grants"]) == (HTTPStatus.OK, 4, [])

    play(story)


def test_a_newer_request_replaces_one_that_waits() -> None:
    async def story(ask: Ask, _: Coordination) -> None:
        await ask(FIRST)
        waiting = asyncio.ensure_future(
            ask({"session": "s", "number": 2, "revision": 1, "waitSeconds": 60})
        )
        await asyncio.sleep(0.05)
        await ask({"session": "s", "number": 3, "revision": 1, "waitSeconds": 0})
        status, answer = await waiting
        assert (status, answer["reason"]) == (HTTPStatus.CONFLICT, "Stale")

    play(story)


def test_every_bad_request_has_an_answer_of_its_own_and_harms_nobody() -> None:
    huge = [{"topic": "t", "broker": "b", "ids": "0-2147483640"}]
    deep = b'{"session": "s", "number": 2, "unknown": ' + 10_000 * b"[" + 10_000 * b"]" + b"}"
    never_granted = [{"topic": "orders", "broker": "broker-a", "ids": "0"}]
    bad: list[tuple[HTTPStatus, str, dict[str, Any]]] = [
        (HTTPStatus.FORBIDDEN, "Forbidden", {"body": FIRST, "token": "wrong"}),
        (HTTPStatus.NOT_FOUND, "NoSuchGroup", {"body": FIRST, "group": "default/other"}),
        (HTTPStatus.BAD_REQUEST, "BadRequest", {"body": b"no json"}),
        (HTTPStatus.BAD_REQUEST, "BadRequest", {"body": b'{"session": "\xff", "number": 2}'}),
        (HTTPStatus.BAD_REQUEST, "BadRequest", {"body": deep}),
        (HTTPStatus.BAD_REQUEST, "BadRequest", {"body": b"no gzip", "encoding": "gzip"}),
        (HTTPStatus.BAD_REQUEST, "BadRequest", {"body": {"session": 7, "number": 1}}),
        (HTTPStatus.BAD_REQUEST, "BadRequest", {"body": {"session": "s", "number": 0}}),
        (HTTPStatus.BAD_REQUEST, "BadRequest", {"body": {**FIRST, "holds": huge}}),
        (HTTPStatus.BAD_REQUEST, "BadRequest", {"body": FIRST, "member": "m" * 254}),
        (HTTPStatus.CONFLICT, "AnotherSession", {"body": {"session": "t", "number": 1}}),
        (HTTPStatus.CONFLICT, "Stale", {"body": {"session": "s", "number": 1}}),
        (
            HTTPStatus.BAD_REQUEST,
            "UnknownRevision",
            {"body": {"session": "s", "number": 2, "revision": 99}},
        ),
        (
            HTTPStatus.GONE,
            "SessionOver",
            {"body": {"session": "u", "number": 9}, "member": "stranger"},
        ),
        (
            HTTPStatus.GONE,
            "SessionOver",
            {"body": {**FIRST, "holds": never_granted}, "member": "stranger"},
        ),
        (
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "BadRequest",
            {"body": io.BytesIO(b" " * (MOST_REQUEST_BYTES + 1))},
        ),
        (HTTPStatus.METHOD_NOT_ALLOWED, "BadRequest", {"body": FIRST, "method": "PUT"}),
    ]

    async def story(ask: Ask, coordination: Coordination) -> None:
        await ask(FIRST)
        for expected, reason, arguments in bad:
            status, answer = await ask(**arguments)
            assert (status, answer["reason"]) == (expected, reason), arguments
        assert list(coordination.list_live(BILLING) or ()) == ["a"]

    play(story)


def test_a_member_that_leaves_is_gone_at_once() -> None:
    async def story(ask: Ask, coordination: Coordination) -> None:
        await ask(FIRST)
        assert (await ask(b"", method="DELETE", query="?session=other"))[0] == HTTPStatus.NO_CONTENT
        assert list(coordination.list_live(BILLING) or ()) == ["a"]
        assert (await ask(b"", method="DELETE", query="?session=s"))[0] == HTTPStatus.NO_CONTENT
        assert coordination.list_live(BILLING) == {}

    play(story)
