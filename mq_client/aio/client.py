"""
The asyncio client. Each operation is a coroutine. A client belongs to one event loop.

The client opens one connection to each address, at the first request to it. All tasks share this
connection.
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
from mq_client.operations import (
    groups,
    membership,
    offsets,
    oldest,
    popping,
    pulling,
    routing,
    sending,
)

Value = TypeVar("Value")
P = ParamSpec("P")


def _make_method(
    operation: Callable[Concatenate[Directory, P], Flow[Value]],
) -> Callable[Concatenate["Client", P], Coroutine[Any, Any, Value]]:
    """Turn an operation into a method that runs its flow to the end."""

    @functools.wraps(operation)
    async def method(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Value:
        return await client.run(operation(client.directory, *args, **kwargs))

    return method


class Client:
    """A client of one RocketMQ cluster."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        times: Times = DEFAULT_TIMES,
    ) -> None:
        """Prepare the client; connections are opened when they are needed."""
        self.directory = Directory(name_servers, Machine(), times, credentials)
        self._tls = tls
        self._links: dict[str, asyncio.Task[Link]] = {}
        self._listeners = Listeners()
        self._is_closed = False

    find_route = _make_method(routing.find_route)
    list_topics = _make_method(routing.list_topics)
    list_user_topics = _make_method(routing.list_user_topics)
    list_brokers = _make_method(routing.list_brokers)
    put_topics = _make_method(routing.put_topics)
    delete_topic = _make_method(routing.delete_topic)
    find_min_offset = _make_method(offsets.find_min_offset)
    find_max_offset = _make_method(offsets.find_max_offset)
    find_master_max_offset = _make_method(offsets.find_master_max_offset)
    search_offset = _make_method(offsets.search_offset)
    list_offsets = _make_method(offsets.list_offsets)
    find_committed = _make_method(offsets.find_committed)
    commit = _make_method(offsets.commit)
    measure_lag = _make_method(offsets.measure_lag)
    send_heartbeat = _make_method(membership.send_heartbeat)
    unregister = _make_method(membership.unregister)
    list_member_ids = _make_method(membership.list_member_ids)
    list_members = _make_method(membership.list_members)
    lock = _make_method(membership.lock)
    unlock = _make_method(membership.unlock)
    query_assignment = _make_method(membership.query_assignment)
    pull_batch = _make_method(pulling.pull_batch)
    pop = _make_method(popping.pop)
    acknowledge = _make_method(popping.acknowledge)
    change_invisible = _make_method(popping.change_invisible)
    send_to_dead_letters = _make_method(popping.send_to_dead_letters)
    wait_for_messages = _make_method(popping.wait_for_messages)
    count_parked_pops = _make_method(popping.count_parked_pops)
    count_waiting = _make_method(popping.count_waiting)
    find_oldest_waiting = _make_method(oldest.find_oldest_waiting)
    put_group = _make_method(groups.put_group)
    list_groups = _make_method(groups.list_groups)
    count_dead_letters = _make_method(groups.count_dead_letters)
    set_request_mode = _make_method(groups.set_request_mode)
    send = _make_method(sending.send)
    send_one_way = _make_method(sending.send_one_way)

    def watch_members(self, group: str, call: Callable[[], None]) -> None:
        """
        Call `call` when a broker reports that the members of the group have changed.

        Only brokers that know this client report such changes.
        """
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

    def reconnect(self) -> None:
        """
        Give up all open connections. The next requests open new ones.

        After an outage of the network, TCP waits for seconds before it sends lost packets again.
        """
        for link in self._list_open():
            link.drop()

    async def close(self) -> None:
        """Close all connections. Calls in flight fail with a `ClosedError`."""
        self._is_closed = True
        for opening in self._links.values():
            opening.cancel()
        for link in self._list_open():
            link.close()
        await asyncio.gather(*self._links.values(), return_exceptions=True)

    async def __aenter__(self) -> Self:
        """Return the client. Connections are opened when they are needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self.close()

    def _list_open(self) -> list[Link]:
        return [
            opening.result()
            for opening in self._links.values()
            if opening.done() and not opening.cancelled() and opening.exception() is None
        ]

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
                    link = await self._find_link(ask.address)
            except TimeoutError:
                raise errors.DeadlineError("no connection in time") from None
            answer = await link.request(ask.request, until - now())
        except errors.UnavailableError as error:
            raise flows.make_failure(ask, error) from error
        return base.read_answer(ask.request, answer, ask.address)

    async def _tell(self, tell: Tell) -> None:
        try:
            (await self._find_link(tell.address)).tell(tell.request)
        except errors.UnavailableError as error:
            raise flows.make_failure(tell, error) from error

    async def _ask_quietly(self, ask: Ask) -> Any:
        try:
            return await self._ask(ask)
        except errors.MqError as error:
            return error

    async def _find_link(self, address: str) -> Link:
        """Find or open the connection to an address. Several tasks may wait for one connection."""
        if self._is_closed:
            raise errors.ClosedError("the client was closed")
        opening = self._links.get(address)
        if opening is None or _is_over(opening):
            opening = asyncio.create_task(self._open(address))
            self._links[address] = opening
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if self._is_closed and opening.cancelled():  # `close` cancelled it
                raise errors.ClosedError("the client was closed") from None
            raise

    async def _open(self, address: str) -> Link:
        link = Link(address, self._listeners.hear, self.directory.credentials)
        await link.open(self._tls, self.directory.times.connect)
        return link


def _is_over(opening: asyncio.Task[Link]) -> bool:
    """Whether a connection has failed or ended, or may soon be closed because it is idle."""
    if not opening.done():
        return False
    if opening.cancelled() or opening.exception() is not None:
        return True
    link = opening.result()
    if link.is_idle and time.monotonic() - link.used_at > IDLE_SECONDS:
        link.close()
    return link.is_over
