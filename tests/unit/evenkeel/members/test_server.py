"""
Members over HTTP: the answers to valid requests, and to every kind of invalid one.

`asking` compares each answer with the OpenAPI document.
"""

import asyncio
import io
from http import HTTPStatus
from typing import Any

import pytest

from contract.following import MOST_REQUEST_BYTES, Denial
from evenkeel.members.doors import STATUSES, DeniedError
from evenkeel.objects import Key
from tests import asking
from tests.asking import BILLING, Asking

FIRST = {"session": "s", "number": 1, "waitSeconds": 0}


def test_a_member_learns_what_it_may_read_and_where() -> None:
    async def story(ask: Asking) -> None:
        status, answer = await ask(FIRST)
        assert status == HTTPStatus.OK
        assert answer["grants"] == [{"topic": "orders", "broker": "broker-a", "ids": "0-1"}]
        assert (answer["epoch"], answer["sessionSeconds"], answer["onOutage"]) == (3, 600.0, "Stop")
        assert answer["source"] == {
            "leftovers": None,
            "group": "billing",
            "nameServers": ["mq:9876"],
            "tags": {"orders": "paid"},
            "sql": {},
            "messages": None,
            "ordered": None,
        }

    asking.play(story)


def test_news_end_the_wait() -> None:
    async def story(ask: Asking) -> None:
        await ask(FIRST)
        waiting = asyncio.ensure_future(
            ask({"session": "s", "number": 2, "revision": 1, "waitSeconds": 60})
        )
        await asyncio.sleep(0)
        asking.publish(ask.coordination, {}, epoch=4)
        status, answer = await waiting
        assert (status, answer["epoch"], answer["grants"]) == (HTTPStatus.OK, 4, [])

    asking.play(story)


def test_a_newer_request_replaces_one_that_waits() -> None:
    async def story(ask: Asking) -> None:
        await ask(FIRST)
        waiting = asyncio.ensure_future(
            ask({"session": "s", "number": 2, "revision": 1, "waitSeconds": 60})
        )
        await asyncio.sleep(0.05)
        await ask({"session": "s", "number": 3, "revision": 1, "waitSeconds": 0})
        status, answer = await waiting
        assert (status, answer["reason"]) == (HTTPStatus.CONFLICT, "Stale")

    asking.play(story)


def test_a_member_that_does_not_release_a_queue_is_refused_at_last() -> None:
    held = [{"topic": "orders", "broker": "broker-a", "ids": "0-1"}]

    async def story(ask: Asking) -> None:
        await ask(FIRST)
        asking.publish(ask.coordination, {}, epoch=4)
        answers = []
        for number in (2, 3):
            ask.clock.passed += 400  # together more than a session and the drain
            request = {"session": "s", "number": number, "revision": 2, "holds": held}
            answers.append(await ask(request | {"waitSeconds": 0}))
        (first, _), (second, answer) = answers
        assert (first, second) == (HTTPStatus.OK, HTTPStatus.LOCKED)
        assert answer["reason"] == "ReleaseOverdue"

    asking.play(story)


def test_every_bad_request_has_an_answer_of_its_own_and_harms_nobody() -> None:
    huge = [{"topic": "t", "broker": "b", "ids": "0-2147483640"}]
    deep = b'{"session": "s", "number": 2, "unknown": ' + 10_000 * b"[" + 10_000 * b"]" + b"}"
    never_granted = [{"topic": "orders", "broker": "broker-a", "ids": "0"}]
    bad: list[tuple[HTTPStatus, str, dict[str, Any]]] = [
        (HTTPStatus.FORBIDDEN, "Forbidden", {"body": FIRST, "token": "wrong"}),
        (HTTPStatus.NOT_FOUND, "NoSuchGroup", {"body": FIRST, "group": "shop/other"}),
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

    async def story(ask: Asking) -> None:
        await ask(FIRST)
        for expected, reason, arguments in bad:
            status, answer = await ask(**arguments)
            assert (status, answer["reason"]) == (expected, reason), arguments
        assert list(ask.coordination.list_live(BILLING) or ()) == ["a"]

    asking.play(story)


class Closed:
    """A door that admits no member."""

    def __init__(self, denial: Denial) -> None:
        self._denial = denial

    async def admit(self, token: str, key: Key, member: str) -> None:
        raise DeniedError(self._denial, "closed")


@pytest.mark.parametrize("denial", [each for each in Denial if each is not Denial.SLOW_BODY])
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_whoever_is_not_admitted_learns_why(denial: Denial, method: str) -> None:
    async def story(ask: Asking) -> None:
        status, answer = await ask(FIRST, method=method, query="?session=s")
        assert (status, answer["reason"]) == (STATUSES[denial], denial.value)

    asking.play(story, door=Closed(denial))


def test_a_member_that_leaves_is_gone_at_once() -> None:
    async def story(ask: Asking) -> None:
        await ask(FIRST)
        assert (await ask(b"", method="DELETE", query="?session=other"))[0] == HTTPStatus.NO_CONTENT
        assert list(ask.coordination.list_live(BILLING) or ()) == ["a"]
        assert (await ask(b"", method="DELETE", query="?session=s"))[0] == HTTPStatus.NO_CONTENT
        assert ask.coordination.list_live(BILLING) == {}

    asking.play(story)
