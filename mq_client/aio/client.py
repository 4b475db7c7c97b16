"""
The asyncio client: each operation as a coroutine. It belongs to one event loop.

It opens connections when they are needed, one an address, and shares them between tasks.
"""

import asyncio
import functools
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from mq_client import errors, flows
from mq_client.acl import Credentials
from mq_client.aio.link import Link
from mq_client.commands import base
from mq_client.directory import DEFAULT_TIMES, IDLE_SECONDS, Directory, Times
from mq_client.flows import Ask, AskAll, Flow, Pause, Step, Tell
from mq_client.machine import Machine
from mq_client.notices import Listeners
from mq_client.operations import membership, offsets, pulling, routing, sending

Value = TypeVar("Value")
P = ParamSpec("P")


def _runs(
    operation: Callable[Concatenate[Directory, P], Flow[Value]],
) -> Callable[Concatenate["Client", P], Coroutine[Any, Any, Value]]:
    """Make a method of an operation: run its flow to the end."""

    @functools.wraps(operation)
    async def method(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Value:
        return await client.run(operation(client.directory, *args, **kwargs))

    return method


class Client:
    """Talks to one RocketMQ cluster."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        times: Times = DEFAULT_TIMES,
    ) -> None:
        """Connect to nothing yet."""
        self.directory = Directory(name_servers, Machine(), times, credentials)
        self._tls = tls
        self._links: dict[str, asyncio.Task[Link]] = {}
        self._listeners = Listeners()
        self._is_closed = False

    route = _runs(routing.route)
    topics = _runs(routing.topics)
    users_topics = _runs(routing.users_topics)
    brokers = _runs(routing.brokers)
    put_topics = _runs(routing.put_topics)
    delete_topic = _runs(routing.delete_topic)
    min_offset = _runs(offsets.min_offset)
    max_offset = _runs(offsets.max_offset)
    master_max_offset = _runs(offsets.master_max_offset)
    search_offset = _runs(offsets.search_offset)
    topic_offsets = _runs(offsets.topic_offsets)
    committed = _runs(offsets.committed)
    commit = _runs(offsets.commit)
    lag = _runs(offsets.lag)
    heartbeat = _runs(membership.heartbeat)
    unregister = _runs(membership.unregister)
    member_ids = _runs(membership.member_ids)
    members = _runs(membership.members)
    lock = _runs(membership.lock)
    unlock = _runs(membership.unlock)
    assignment = _runs(membership.assignment)
    next_batch = _runs(pulling.next_batch)
    send = _runs(sending.send)
    send_one_way = _runs(sending.send_one_way)

    def on_members_changed(self, group: str, call: Callable[[], None]) -> None:
        """Call this when a broker that had our heartbeat says that the group's members changed."""
        self._listeners.add(group, call)

    async def run(self, flow: Flow[Value]) -> Value:
        """Run an operation of `mq_client.operations`."""
        outcome: Any = None
        while True:
            try:
                if isinstance(outcome, errors.MqError):
                    step = flow.throw(outcome)
                else:
                    step = flow.send(outcome)
            except StopIteration as stop:
                result: Value = stop.value
                return result
            try:
                outcome = await self._perform(step)
            except errors.MqError as error:
                outcome = error

    async def close(self) -> None:
        """Close all connections; whoever waits gets an error."""
        self._is_closed = True
        for opening in self._links.values():
            opening.cancel()
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                opening.result().close()
        await asyncio.gather(*self._links.values(), return_exceptions=True)

    async def __aenter__(self) -> Self:
        """Nothing is opened before it is needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self.close()

    async def _perform(self, step: Step) -> Any:
        match step:
            case Ask():
                return await self._ask(step)
            case AskAll(asks):
                return await asyncio.gather(*map(self._ask_quietly, asks))
            case Tell():
                return await self._tell(step)
            case Pause(seconds):
                return await asyncio.sleep(seconds)

    async def _ask(self, ask: Ask) -> Any:
        now = asyncio.get_running_loop().time
        until = now() + ask.timeout
        try:
            try:
                async with asyncio.timeout_at(until):
                    link = await self._link(ask.address)
            except TimeoutError:
                raise errors.DeadlineError("no connection in time") from None
            answer = await link.request(ask.request, until - now())
        except errors.UnavailableError as error:
            raise flows.failure(ask, error) from error
        return base.result(ask.request, answer, ask.address)

    async def _tell(self, tell: Tell) -> None:
        try:
            (await self._link(tell.address)).tell(tell.request)
        except errors.UnavailableError as error:
            raise flows.failure(tell, error) from error

    async def _ask_quietly(self, ask: Ask) -> Any:
        try:
            return await self._ask(ask)
        except errors.MqError as error:
            return error

    async def _link(self, address: str) -> Link:
        """Find the connection to an address, or open one; several tasks may wait for the same."""
        if self._is_closed:
            raise errors.ClosedError("the client was closed")
        opening = self._links.get(address)
        if opening is None or _is_over(opening):
            opening = asyncio.create_task(self._open(address))
            self._links[address] = opening
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if self._is_closed and opening.cancelled():  # not this task: `close` did it
                raise errors.ClosedError("the client was closed") from None
            raise

    async def _open(self, address: str) -> Link:
        link = Link(address, self._listeners.hear, self.directory.credentials)
        await link.open(self._tls, self.directory.times.connect)
        return link


def _is_over(opening: asyncio.Task[Link]) -> bool:
    """Whether a connection failed, ended, or was idle for so long that the peer may end it."""
    if not opening.done():
        return False
    if opening.cancelled() or opening.exception() is not None:
        return True
    link = opening.result()
    if link.is_idle and time.monotonic() - link.used_at > IDLE_SECONDS:
        link.close()
    return link.is_over
