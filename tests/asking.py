"""
Asks a real server of members over HTTP, and compares each answer with the OpenAPI document.

The server has run for longer than a session, so it grants queues immediately.
"""

import asyncio
import io
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from contract.kinds.groups import Assigned, GroupSpec, GroupStatus, OwnedQueues
from contract.kinds.topics import TopicSpec, TopicStatus
from evenkeel.members import server
from evenkeel.members.coordination import Coordination
from evenkeel.members.doors import Door, TokenDoor
from evenkeel.objects import ConsumerGroup, Head, Key, Topic
from tests import described

TOKEN = "secret"
BILLING, _ORDERS = Key("shop", "billing"), Key("shop", "orders")
SESSION = "600s"
EPOCH = 3
"""The epoch of the first assignment."""


class Clock:
    """A clock that a test can advance."""

    def __init__(self) -> None:
        self.passed = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.passed


@dataclass
class Asking:
    """Sends requests to a server that coordinates the group `BILLING`."""

    coordination: Coordination
    clock: Clock
    port: int
    http: aiohttp.ClientSession

    async def __call__(
        self,
        body: Any,
        member: str = "a",
        group: str = "shop/billing",
        token: str = TOKEN,
        method: str = "POST",
        query: str = "",
        encoding: str = "identity",
    ) -> tuple[int, dict[str, Any]]:
        """Send a request; return the status and the body of its answer."""
        data = body if isinstance(body, bytes | io.BytesIO) else msgspec.json.encode(body)
        headers = {"Authorization": f"Bearer {token}", "Content-Encoding": encoding}
        url = f"http://127.0.0.1:{self.port}/v1/groups/{group}/members/{member}{query}"
        async with self.http.request(method, url, data=data, headers=headers) as answer:
            found = await answer.read()
            described.check_answer(method, answer.status, answer.headers.get("Content-Type"), found)
            return answer.status, msgspec.json.decode(found) if found else {}


def play(
    story: Callable[[Asking], Awaitable[None]],
    owner: str = "a",
    session: str = SESSION,
    door: Door | None = None,
) -> None:
    """Play a story with a group in which `owner` owns all queues."""

    async def run() -> None:
        clock = Clock()
        coordination = Coordination(lambda key: None, clock)
        publish(coordination, {owner: "0-1"}, session=session)
        clock.passed = 601.0
        async with (
            server.serve(coordination, door or TokenDoor(TOKEN), server.open_port(0)) as port,
            aiohttp.ClientSession() as http,
        ):
            await story(Asking(coordination, clock, port, http))
        coordination.close()

    asyncio.run(run())


def publish(
    coordination: Coordination,
    owners: Mapping[str, str],
    epoch: int = EPOCH,
    session: str = SESSION,
) -> None:
    """Publish which member owns which queues of a broker."""
    spec: dict[str, Any] = {"topics": [{"name": "orders", "filter": {"tags": "paid"}}]}
    spec |= {"consumers": {"members": {"session": session}}}
    assigned = [
        Assigned(member, queues=[OwnedQueues("orders", "broker-a", ids)])
        for member, ids in owners.items()
    ]
    status = GroupStatus(epoch=epoch, assignments=assigned)
    group = ConsumerGroup(Head(BILLING), msgspec.convert(spec, GroupSpec), status)
    orders = msgspec.convert({"nameServers": ["mq:9876"]}, TopicSpec)
    coordination.follow(group, {_ORDERS: Topic(Head(_ORDERS), orders, TopicStatus())})
