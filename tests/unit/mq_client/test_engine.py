"""Whatever happens to one call, the others get their answers, and the client can be closed."""

import asyncio
import contextlib
import logging
import random
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from mq_client import aio, blocking, errors, flows
from mq_client.blocking import membership
from mq_client.blocking.client import Client
from mq_client.blocking.link import Link
from mq_client.blocking.names import Names
from mq_client.commands.base import Done
from mq_client.commands.cluster import GetTopics
from mq_client.connection import NEVER
from mq_client.directory import Times
from mq_client.flows import Ask, AskAll, Flow, Step, Tell
from mq_client.frames import Frame
from mq_client.notices import NOTIFY_CONSUMER_IDS_CHANGED, Listeners
from tests.peer import Peer

UNRESOLVABLE = ["..:9", f"{'a' * 70}.x:9"]
"""Host names that IDNA refuses, because a part is empty or too long."""
INTERRUPTS = 150
STRIKE_AGAIN_SECONDS = 1.0
SOON_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Broken(Done):
    """A request that cannot be encoded; its error is not one of ours."""

    code: ClassVar[int] = 1
    name: ClassVar[str] = "BROKEN"

    def list_fields(self) -> dict[str, str]:
        raise TypeError("no text")


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Start a call in a thread; its result or error will be in the list."""
    ended: list[Any] = []

    def run() -> None:
        try:
            ended.append(work())
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, ended


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)


def test_a_connection_wakes_its_client_until_it_is_open_and_never_once_it_has_ended(
    peer: Peer,
) -> None:
    """Otherwise a connection that has ended would keep the client's loop busy."""
    with selectors.DefaultSelector() as selector:
        names = Names(lambda: None)
        link = Link(peer.address, selector, lambda _: None, None, None, names)
        link.open(100.0, 3.0)
        assert link.wakes_at == 103.0
        link.end("the peer closed the connection")
        assert link.wakes_at == NEVER


def test_both_clients_can_do_the_same() -> None:
    def operations(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    extra = {"engine", "start", "wait", "read", "join", "run", "watch_members"}
    assert operations(Client) - extra == operations(aio.Client) - extra


# --- errors that are not ours


@pytest.mark.parametrize(
    "broken",
    [
        lambda to: Ask(to, Broken(), 5.0),
        lambda to: AskAll((Ask(to, GetTopics(), 5.0), Ask(to, Broken(), 5.0))),
        lambda to: Tell(to, Broken()),
    ],
    ids=["ask", "ask all", "tell"],
)
def test_a_step_that_cannot_be_done_fails_its_own_call_alone(
    peer: Peer, client: Client, broken: Callable[[str], Step]
) -> None:
    """The leading thread does the step of the other thread, while it waits for its own answer."""

    def two_steps() -> Generator[Step, Any, None]:
        yield from flows.ask(peer.address, GetTopics(), 5.0)
        yield broken(peer.address)

    client.list_topics()
    peer.held = {Broken.code + 1}
    held = Held()
    leader, ended = in_thread(lambda: client.engine.run(flows.ask(peer.address, held, 60.0)))
    until(lambda: peer.asked[held.code])
    peer.let_go.set()
    with pytest.raises(TypeError, match="no text"):
        client.engine.run(two_steps())
    leader.join(SOON_SECONDS)
    assert ended == [None]


@dataclass(frozen=True, slots=True)
class Held(Done):
    """A request that the peer holds back."""

    code: ClassVar[int] = Broken.code + 1
    name: ClassVar[str] = "HELD"


def test_after_a_reconnect_calls_in_flight_fail_and_later_ones_open_a_connection(
    peer: Peer, client: Client
) -> None:
    client.reconnect()  # nothing is open yet
    peer.held = {Held.code}
    held = Held()
    waiting, ended = in_thread(lambda: client.engine.run(flows.ask(peer.address, held, 60.0)))
    until(lambda: peer.asked[held.code])
    client.reconnect()
    waiting.join(SOON_SECONDS)
    assert "the client gave the connection up" in str(ended[0])
    assert client.list_topics() == ["orders"]  # the peer still waits on the first connection


def test_a_callback_that_fails_is_logged_and_nothing_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise RuntimeError("in the callback")

    listeners = Listeners()
    listeners.add("billing", fail)
    with caplog.at_level(logging.ERROR, logger="mq_client"):
        listeners.hear(Frame(NOTIFY_CONSUMER_IDS_CHANGED, 1, 2, {"consumerGroup": "billing"}))
    assert "'billing'" in caplog.text
    assert "in the callback" in caplog.text


def test_heartbeats_go_on_after_any_error_which_is_kept(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats = 0

    def heartbeat(*_: object) -> Flow[dict[str, errors.MqError]]:
        nonlocal beats
        beats += 1
        if beats == 2:
            raise RuntimeError("odd")
        yield flows.Pause(0.0)
        return {}

    monkeypatch.setattr(membership, "EVERY_SECONDS", 0.05)
    monkeypatch.setattr("mq_client.operations.membership.send_heartbeat", heartbeat)
    with client.join("billing", "me", {}) as joined:
        until(lambda: joined.failures)
        assert "odd" in str(joined.failures["route"])
        until(lambda: beats > 2)
        until(lambda: not joined.failures)


# --- hosts


@pytest.mark.parametrize("host", UNRESOLVABLE, ids=["empty part", "long part"])
def test_a_host_that_can_be_no_name_is_passed_over_for_the_next(peer: Peer, host: str) -> None:
    with Client([host, peer.address]) as client:
        assert client.list_topics() == ["orders"]


@pytest.mark.parametrize("host", UNRESOLVABLE, ids=["empty part", "long part"])
def test_a_host_that_can_be_no_name_is_passed_over_by_asyncio_too(peer: Peer, host: str) -> None:
    async def main() -> list[str]:
        async with aio.Client([host, peer.address]) as client:
            return await client.list_topics()

    assert asyncio.run(main()) == ["orders"]


class SlowNames:
    """Resolves the host `slow` only when the test lets it."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.may_end = threading.Event()
        self.asked = 0
        self._others = socket.getaddrinfo
        patched.setattr(socket, "getaddrinfo", self._look_up)

    def _look_up(self, host: str, *args: Any, **kwargs: Any) -> Any:
        if host != "slow":
            return self._others(host, *args, **kwargs)
        if kwargs.get("flags", 0) & socket.AI_NUMERICHOST:
            raise socket.gaierror("no number")
        self.asked += 1
        self.may_end.wait(SOON_SECONDS)
        self.may_end.set()
        return self._others("127.0.0.1", *args, **kwargs)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowNames]:
    slow = SlowNames(monkeypatch)
    yield slow
    slow.may_end.set()


def slow_address(peer: Peer) -> str:
    return peer.address.replace("127.0.0.1", "slow")


def test_a_name_that_is_looked_up_for_long_delays_nobody_else(peer: Peer, names: SlowNames) -> None:
    with Client(peer.address) as client:
        waits = client.start(flows.ask(slow_address(peer), GetTopics(), SOON_SECONDS))
        assert client.list_topics() == ["orders"]
        assert not names.may_end.is_set()
        names.may_end.set()
        assert client.wait(waits) == ["orders"]


def test_a_name_that_is_looked_up_for_long_ends_a_call_in_its_time(
    peer: Peer, names: SlowNames
) -> None:
    with Client(slow_address(peer), times=Times(answer=0.05)) as client:
        with pytest.raises(errors.NoNameServerError, match=r"slow:.* no answer within 0\.05 s"):
            client.list_topics()
        assert not names.may_end.is_set()


def test_a_name_that_is_looked_up_for_long_ends_a_call_in_its_time_by_asyncio_too(
    peer: Peer, names: SlowNames
) -> None:
    async def main() -> None:
        async with aio.Client(slow_address(peer), times=Times(answer=0.05)) as client:
            with pytest.raises(errors.NoNameServerError, match=r"no answer within 0\.05 s"):
                await client.list_topics()
            assert not names.may_end.is_set()
            names.may_end.set()

    asyncio.run(main())


def test_a_name_is_looked_up_once_at_a_time(peer: Peer, names: SlowNames) -> None:
    with Client(slow_address(peer), times=Times(connect=0.01, answer=0.05)) as client:
        for _ in range(3):
            with pytest.raises(errors.NoNameServerError):
                client.list_topics()
        assert names.asked == 1
        names.may_end.set()
        until(lambda: _answers(client))
        assert names.asked <= 2


def _answers(client: Client) -> bool:
    with contextlib.suppress(errors.NoNameServerError):
        return client.list_topics() == ["orders"]
    return False


def test_a_lookup_that_ends_when_its_client_is_closed_touches_nothing(
    peer: Peer, names: SlowNames
) -> None:
    client = Client(slow_address(peer), times=Times(answer=0.05))
    with client, pytest.raises(errors.NoNameServerError):
        client.list_topics()
    names.may_end.set()
    until(lambda: not any("looks up" in thread.name for thread in threading.enumerate()))


# --- the end


def test_a_close_during_a_fail_over_ends_it_and_opens_nothing(peer: Peer) -> None:
    with Peer() as silent:
        silent.held = {GetTopics.code}
        client = Client([silent.address, peer.address])
        waiting, ended = in_thread(client.list_topics)
        until(lambda: silent.asked[GetTopics.code])
        client.close()
        waiting.join(SOON_SECONDS)
    assert [type(error) for error in ended] == [errors.ClosedError]
    assert not peer.asked
    client.close()


def test_a_close_during_a_call_ends_it_by_asyncio_too(peer: Peer) -> None:
    async def main() -> None:
        client = aio.Client(peer.address)
        peer.held = {GetTopics.code}
        asking = asyncio.create_task(client.list_topics())
        await asyncio.to_thread(until, lambda: peer.asked[GetTopics.code])
        await client.close()
        with pytest.raises(errors.ClosedError):
            await asking

    asyncio.run(main())


def test_a_close_while_a_connection_is_opened_is_no_cancellation() -> None:
    async def main() -> None:
        client = aio.Client("192.0.2.1:9", times=Times(connect=60.0))
        asking = asyncio.create_task(client.list_topics())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(errors.ClosedError):
            await asking

    asyncio.run(main())


# --- Ctrl-C

pass_by_unowned_sockets = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
"""If an interrupt comes before a new socket has an owner, Python closes the socket and warns."""


class Interrupt(BaseException):
    """An interrupt like that of Ctrl-C, but distinct from it."""


BreakOff = Callable[[float, Callable[[], object]], None]


@pytest.fixture
def break_off() -> Iterator[BreakOff]:
    """Repeat an action for some seconds, and then interrupt it at any point."""
    is_armed = False

    def strike(*_: object) -> None:
        if is_armed:
            raise Interrupt

    def break_off(seconds: float, work: Callable[[], object]) -> None:
        nonlocal is_armed
        try:
            is_armed = True
            # The signal repeats: Python drops an error that is raised while it destroys an object.
            signal.setitimer(signal.ITIMER_REAL, seconds, STRIKE_AGAIN_SECONDS)
            while True:
                work()
        except Interrupt:
            pass
        finally:
            is_armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, strike)
    yield break_off
    signal.signal(signal.SIGALRM, before)


@pass_by_unowned_sockets
def test_an_interrupted_client_can_be_used_and_closed(
    peer: Peer, break_off: BreakOff, rng: random.Random
) -> None:
    for _ in range(INTERRUPTS):
        client = blocking.Client(peer.address)
        client.list_topics()
        break_off(rng.uniform(0.0001, 0.003), client.list_topics)
        assert client.list_topics() == ["orders"]
        began = time.monotonic()
        client.close()
        assert time.monotonic() - began < 1


@pass_by_unowned_sockets
def test_an_interrupt_lets_no_other_thread_wait_for_ever(
    peer: Peer, client: Client, break_off: BreakOff, rng: random.Random
) -> None:
    """Answers for other threads may be lost; then those threads get an error."""
    is_over = threading.Event()

    def ask_on() -> int:
        answers = 0
        while not is_over.is_set():
            with contextlib.suppress(errors.UnavailableError):
                answers += len(client.list_topics())
        return answers

    def ask() -> None:
        with contextlib.suppress(errors.UnavailableError):
            client.list_topics()

    others = [in_thread(ask_on) for _ in range(3)]
    for _ in range(INTERRUPTS):
        break_off(rng.uniform(0.0001, 0.003), ask)
    is_over.set()
    for thread, ended in others:
        thread.join(SOON_SECONDS)
        assert not thread.is_alive()
        assert ended[0] > 0
    assert client.list_topics() == ["orders"]
