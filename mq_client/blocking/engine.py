"""
Runs flows over sockets, for any number of threads, without a thread of its own.

Whoever waits does the work: one waiting thread leads, that is, it watches all sockets and carries
out what they bring for everybody; the others sleep until it hands over. A program with one thread
never switches threads to get an answer, and many requests are under way on one connection.

All state is touched under one lock, which is free while the leader waits for the sockets.
"""

import contextlib
import functools
import heapq
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Generic, TypeVar

from mq_client import errors, flows
from mq_client.blocking.link import Link, State
from mq_client.commands import base
from mq_client.connection import NEVER
from mq_client.directory import IDLE_SECONDS, Directory
from mq_client.flows import Ask, AskAll, Flow, Pause, Step, Tell
from mq_client.frames import Frame

Value = TypeVar("Value")
Outcome = Any


class Task(Generic[Value]):
    """A flow under way."""

    def __init__(
        self, flow: Flow[Value], done: "Callable[[Task[Value]], None] | None" = None
    ) -> None:
        """Nothing happens yet."""
        self.flow = flow
        self.is_done = False
        self._done = done
        self._value: Value | None = None
        self._error: BaseException | None = None

    def finish(self, value: Value | None, error: BaseException | None) -> None:
        """Keep the result, and tell who asked to be told."""
        self._value, self._error, self.is_done = value, error, True
        if self._done is not None:
            self._done(self)

    def result(self) -> Value:
        """Return what the flow returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # None only where Value allows it


class Engine:
    """Owns the sockets, and moves flows on."""

    def __init__(
        self,
        directory: Directory,
        tls: ssl.SSLContext | None,
        pushed: Callable[[Frame], None],
    ) -> None:
        """Open nothing yet. `pushed` is called, by whichever thread leads, for what peers ask."""
        self._directory = directory
        self._tls = tls
        self._pushed = pushed
        self._selector = selectors.DefaultSelector()
        self._turn = threading.Condition(threading.RLock())
        self._is_led = False
        self._links: dict[str, Link] = {}
        self._pauses: list[tuple[float, int, Task[Any]]] = []
        self._numbers = count()
        self._is_closed = False
        self._ear, self._mouth = socket.socketpair()
        self._ear.setblocking(False)
        self._mouth.setblocking(False)
        self._selector.register(self._ear, selectors.EVENT_READ)

    def run(self, flow: Flow[Value]) -> Value:
        """Run a flow to its end."""
        task = self.start(flow)
        self.wait(lambda: task.is_done)
        return task.result()

    def start(
        self, flow: Flow[Value], done: Callable[[Task[Value]], None] | None = None
    ) -> Task[Value]:
        """Send a flow's first requests. It goes on whenever some thread waits."""
        task = Task(flow, done)
        with self._turn:
            if self._is_closed:
                raise errors.ClosedError("the client was closed")
            self._resume(task, None)
            if self._is_led:
                self._wake()
        return task

    def wait(self, is_done: Callable[[], bool], seconds: float = NEVER) -> bool:
        """Do everybody's work until this is so; False if the time is over before."""
        until = time.monotonic() + seconds
        with self._turn:
            while not is_done():
                if self._is_closed:
                    raise errors.ClosedError("the client was closed while a call waited")
                left = until - time.monotonic()
                if left <= 0:
                    return False
                if self._is_led:
                    self._turn.wait(min(left, threading.TIMEOUT_MAX))
                else:
                    self._lead(until)
        return True

    def nudge(self) -> None:
        """Let every thread that waits look again whether it still has to."""
        with self._turn:
            if not self._is_closed:
                self._wake()
                self._turn.notify_all()

    def close(self) -> None:
        """Close all sockets; whoever waits gets a `ClosedError`."""
        with self._turn:
            if self._is_closed:
                return
            self._is_closed = True
            for link in self._links.values():
                link.end("the client was closed")
            self._wake()
            self._turn.notify_all()
            self._turn.wait_for(lambda: not self._is_led)
            self._selector.close()
            self._ear.close()
            self._mouth.close()

    def _lead(self, until: float) -> None:
        """Watch the sockets once, and carry out what they bring."""
        self._is_led = True
        timeout = max(0.0, min(until, self._next_time()) - time.monotonic())
        self._turn.release()
        try:
            events = self._selector.select(None if timeout == NEVER else timeout)
        finally:
            self._turn.acquire()
            self._is_led = False
            self._turn.notify_all()
        now = time.monotonic()
        for key, _ in events:
            if key.data is None:
                self._ear.recv(4096)
            else:
                key.data.ready(now)
        self._tick(now)

    def _next_time(self) -> float:
        pause = self._pauses[0][0] if self._pauses else NEVER
        return min(pause, min((link.wakes_at for link in self._links.values()), default=NEVER))

    def _tick(self, now: float) -> None:
        for link in list(self._links.values()):
            if link.wakes_at <= now:
                link.tick(now)
        while self._pauses and self._pauses[0][0] <= now:
            self._resume(heapq.heappop(self._pauses)[2], None)

    def _wake(self) -> None:
        """Interrupt the leader: there is something new to watch."""
        with contextlib.suppress(BlockingIOError):  # then enough wake-ups are on their way
            self._mouth.send(b"\0")

    def _resume(self, task: Task[Any], outcome: Outcome) -> None:
        try:
            if isinstance(outcome, BaseException):
                step = task.flow.throw(outcome)
            else:
                step = task.flow.send(outcome)
        except StopIteration as stop:
            task.finish(stop.value, None)
        except Exception as error:  # noqa: BLE001  # it belongs to the caller, whatever it is
            task.finish(None, error)
        else:
            self._perform(task, step)

    def _perform(self, task: Task[Any], step: Step) -> None:
        match step:
            case Ask():
                self._ask(step, lambda outcome: self._resume(task, outcome))
            case AskAll(asks):
                self._ask_all(task, asks)
            case Tell():
                self._resume(task, self._tell(step))
            case Pause(seconds):
                due = time.monotonic() + seconds
                heapq.heappush(self._pauses, (due, next(self._numbers), task))

    def _ask_all(self, task: Task[Any], asks: tuple[Ask, ...]) -> None:
        outcomes: list[Outcome] = [None] * len(asks)
        missing = set(range(len(asks)))

        def note(place: int, outcome: Outcome) -> None:
            outcomes[place] = outcome
            missing.discard(place)
            if not missing:
                self._resume(task, outcomes)

        if not asks:
            self._resume(task, outcomes)
        for place, ask in enumerate(asks):
            self._ask(ask, functools.partial(note, place))

    def _ask(self, ask: Ask, done: Callable[[Outcome], None]) -> None:
        def answered(answer: Frame | errors.MqError) -> None:
            try:
                done_with = _outcome(ask, answer)
            except errors.MqError as error:
                done_with = error
            done(done_with)

        now = time.monotonic()
        try:
            self._link(ask.address).request(ask.request, answered, now, now + ask.timeout)
        except errors.UsageError as error:
            done(error)

    def _tell(self, tell: Tell) -> errors.MqError | None:
        try:
            self._link(tell.address).tell(tell.request, time.monotonic())
        except errors.UsageError as error:
            return error
        except errors.UnavailableError as error:
            return flows.failure(tell, error)
        return None

    def _link(self, address: str) -> Link:
        """Find the connection to an address, or open one."""
        now = time.monotonic()
        link = self._links.get(address)
        if link is not None and link.is_idle and now - link.used_at > IDLE_SECONDS:
            link.end("idle for too long")
        if link is None or link.state is State.ENDED:
            credentials = self._directory.credentials
            link = Link(address, self._selector, self._pushed, credentials, self._tls)
            self._links[address] = link
            link.open(now, self._directory.times.connect)
        return link


def _outcome(ask: Ask, answer: Frame | errors.MqError) -> Any:
    if isinstance(answer, Frame):
        return base.result(ask.request, answer, ask.address)
    raise flows.failure(ask, answer) from answer
