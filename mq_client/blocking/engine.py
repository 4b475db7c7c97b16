"""
Run flows over sockets, for any number of threads. The engine has no thread of its own.

The waiting threads do the work. One of them leads: it watches all sockets and handles their events
for all callers, while the other threads sleep. When the leader has its own result, another waiting
thread leads. So a program with one thread never switches threads to get an answer, and many
requests can be in flight on one connection.

One lock protects all state. No thread holds it while the leader waits for the sockets.

Ctrl-C may interrupt the main thread between any two steps. So the code takes locks by `with`, which
always releases them. The leader holds a second lock while it leads, so that other threads can see
when it has stopped. If the leader is interrupted, all calls fail, because answers may be lost.
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
from typing import Any, Generic, NamedTuple, TypeVar

from mq_client import errors, flows
from mq_client.blocking.link import Link, LinkState
from mq_client.blocking.names import Names
from mq_client.commands import base
from mq_client.connection import NEVER
from mq_client.directory import IDLE_SECONDS, Directory
from mq_client.flows import Ask, AskAll, Flow, Pause, Step, Tell
from mq_client.frames import Frame

Value = TypeVar("Value")
Outcome = Any

LOOK_SECONDS = 1.0
"""How often a waiting thread checks that some thread leads: an interrupted leader may wake none."""
LEAVE_SECONDS = 5.0
"""How long `close` waits for the leader to stop."""


class RunningFlow(Generic[Value]):
    """A flow that has been started."""

    def __init__(
        self, flow: Flow[Value], on_done: "Callable[[RunningFlow[Value]], None] | None" = None
    ) -> None:
        """Store the flow; the engine runs it."""
        self.flow = flow
        self.is_done = False
        self._on_done = on_done
        self._value: Value | None = None
        self._error: BaseException | None = None

    def finish(self, value: Value | None, error: BaseException | None) -> None:
        """Store the result, and call `on_done`. After an interrupt, there may be a second call."""
        self._value, self._error = value, error
        if self._on_done is not None:
            self._on_done(self)
        self.is_done = True

    def get_result(self) -> Value:
        """Return what the flow returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # None only where Value allows it


class Leader(NamedTuple):
    """The thread that watches the sockets. It holds its lock while it leads."""

    thread: int
    holds: threading.Lock


class Engine:
    """The owner of the sockets. It advances the flows."""

    def __init__(
        self,
        directory: Directory,
        tls: ssl.SSLContext | None,
        on_push: Callable[[Frame], None],
    ) -> None:
        """Prepare the engine. The leading thread calls `on_push` for requests of peers."""
        self._directory = directory
        self._tls = tls
        self._on_push = on_push
        self._selector = selectors.DefaultSelector()
        self._lock = threading.RLock()
        self._leader = Leader(0, threading.Lock())
        self._bells: list[threading.Lock] = []
        """A lock for each waiting thread. Releasing it wakes the thread."""
        self._under_way: set[RunningFlow[Any]] = set()
        self._links: dict[str, Link] = {}
        self._names = Names(self._wake)
        self._pauses: list[tuple[float, int, RunningFlow[Any]]] = []
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
        return task.get_result()

    def start(
        self, flow: Flow[Value], on_done: Callable[[RunningFlow[Value]], None] | None = None
    ) -> RunningFlow[Value]:
        """Send a flow's first requests. The flow advances while at least one thread waits."""
        task = RunningFlow(flow, on_done)
        with self._lock:
            if self._is_closed:
                raise errors.ClosedError("the client was closed")
            self._under_way.add(task)
            self._run_whole(lambda: self._resume(task, None))
            if self._is_led:
                self._wake()
        return task

    def wait(self, is_done: Callable[[], bool], seconds: float = NEVER) -> bool:
        """Do the I/O of all callers until `is_done` is True. Return False after `seconds`."""
        until = time.monotonic() + seconds
        here = Leader(threading.get_ident(), threading.Lock())
        try:
            with here.holds:
                while True:
                    with self._lock:
                        if is_done():
                            return True
                        if self._is_closed:
                            raise errors.ClosedError("the client was closed while a call waited")
                        left = until - time.monotonic()
                        if left <= 0:
                            return False
                        bell = self._add_bell() if self._is_led else None
                        if bell is None:
                            self._leader = here
                        next_time = self._find_next_time()
                    if bell is None:
                        self._lead(min(until, next_time))
                    else:
                        bell.acquire(timeout=min(left, LOOK_SECONDS))
        finally:
            if self._leader is here:
                self._ring()  # another thread may lead now

    def nudge(self) -> None:
        """Make every waiting thread check its condition again."""
        with self._lock:
            self._wake()
            self._ring()

    def reconnect(self) -> None:
        """End all open connections as if the peers were gone: requests may be repeated."""
        with self._lock:
            self._run_whole(self._give_up_open)
        self.nudge()

    def close(self) -> None:
        """Close all sockets. Calls in flight fail with a `ClosedError`."""
        try:
            with self._lock:
                self._is_closed = True
                for link in list(self._links.values()):
                    link.end("the client was closed")
            self.nudge()
            leader = self._leader
            if leader.thread != threading.get_ident() and leader.holds.acquire(
                timeout=LEAVE_SECONDS
            ):
                leader.holds.release()
        finally:
            with self._lock:
                self._selector.close()
                self._ear.close()
                self._mouth.close()

    @property
    def _is_led(self) -> bool:
        """Whether another thread leads. False if this thread itself leads."""
        return self._leader.holds.locked() and self._leader.thread != threading.get_ident()

    def _lead(self, until: float) -> None:
        """Wait for the sockets once, and handle their events."""
        timeout = None if until == NEVER else max(0.0, until - time.monotonic())
        events = self._selector.select(timeout)
        with self._lock:
            if not self._is_closed:
                self._run_whole(lambda: self._handle(events))
            self._ring()

    def _handle(self, events: list[tuple[selectors.SelectorKey, int]]) -> None:
        now = time.monotonic()
        for key, _ in events:
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    self._ear.recv(4096)
            else:
                key.data.advance(now)
        self._names.deliver()
        self._tick(now)

    def _run_whole(self, work: Callable[[], None]) -> None:
        """
        Do the work. If the work is interrupted, all flows fail.

        The flows fail because an interrupt may have lost an answer or sent half a request.
        """
        try:
            work()
        except BaseException:
            why = "the thread that did the I/O for all calls was interrupted; call again"
            tasks, self._under_way = self._under_way, set()
            for task in tasks:
                if not task.is_done:
                    task.finish(None, errors.ConnectionLostError(why))
            for link in list(self._links.values()):
                link.end(why)
            self._links.clear()
            self._pauses.clear()
            self.nudge()
            raise

    def _give_up_open(self) -> None:
        for link in list(self._links.values()):
            if link.state is LinkState.OPEN:
                link.end("the client gave the connection up")

    def _add_bell(self) -> threading.Lock:
        bell = threading.Lock()
        bell.acquire()
        self._bells.append(bell)
        return bell

    def _ring(self) -> None:
        """Wake all waiting threads, so that they check their conditions again."""
        with self._lock:
            bells, self._bells = self._bells, []
            for bell in bells:
                bell.release()

    def _find_next_time(self) -> float:
        pause = self._pauses[0][0] if self._pauses else NEVER
        return min(pause, min((link.wakes_at for link in self._links.values()), default=NEVER))

    def _tick(self, now: float) -> None:
        for link in list(self._links.values()):
            if link.wakes_at <= now:
                link.tick(now)
        while self._pauses and self._pauses[0][0] <= now:
            self._resume(heapq.heappop(self._pauses)[2], None)

    def _wake(self) -> None:
        """Wake the leader, which waits for the sockets: there is a new socket or deadline."""
        with contextlib.suppress(OSError):  # enough wake-ups are pending, or the socket is closed
            self._mouth.send(b"\0")

    def _resume(self, task: RunningFlow[Any], outcome: Outcome) -> None:
        if task.is_done:  # it failed when the work was interrupted
            return
        try:
            if isinstance(outcome, BaseException):
                step = task.flow.throw(outcome)
            else:
                step = task.flow.send(outcome)
        except StopIteration as stop:
            self._finish(task, stop.value, None)
        except Exception as error:  # noqa: BLE001  # the caller gets any error
            self._finish(task, None, error)
        else:
            self._perform(task, step)

    def _finish(self, task: RunningFlow[Any], value: Any, error: Exception | None) -> None:
        task.finish(value, error)
        self._under_way.discard(task)

    def _perform(self, task: RunningFlow[Any], step: Step) -> None:
        match step:
            case Ask():
                self._ask(step, lambda outcome: self._resume(task, outcome))
            case AskAll(asks):
                self._ask_all(task, asks)
            case Tell():
                self._tell(step, lambda outcome: self._resume(task, outcome))
            case Pause(seconds):
                due = time.monotonic() + seconds
                heapq.heappush(self._pauses, (due, next(self._numbers), task))

    def _ask_all(self, task: RunningFlow[Any], asks: tuple[Ask, ...]) -> None:
        outcomes: list[Outcome] = [None] * len(asks)
        missing = set(range(len(asks)))

        def note(place: int, outcome: Outcome) -> None:
            outcomes[place] = outcome
            missing.discard(place)
            if not missing:
                self._resume(task, flows.check_outcomes(outcomes))

        if not asks:
            self._resume(task, outcomes)
        for place, ask in enumerate(asks):
            self._ask(ask, functools.partial(note, place))

    def _ask(self, ask: Ask, on_outcome: Callable[[Outcome], None]) -> None:
        def finish(answer: Frame | errors.MqError) -> None:
            try:
                outcome = _read_outcome(ask, answer)
            except Exception as error:  # noqa: BLE001  # the flow gets any error
                outcome = error
            on_outcome(outcome)

        now = time.monotonic()
        try:
            self._find_link(ask.address).request(ask.request, finish, now, now + ask.timeout)
        except Exception as error:  # noqa: BLE001  # as above
            on_outcome(error)

    def _tell(self, tell: Tell, on_outcome: Callable[[Outcome], None]) -> None:
        def finish(error: errors.MqError | None) -> None:
            on_outcome(None if error is None else flows.make_failure(tell, error))

        try:
            self._find_link(tell.address).tell(tell.request, finish, time.monotonic())
        except Exception as error:  # noqa: BLE001  # as above
            on_outcome(error)

    def _find_link(self, address: str) -> Link:
        """Find the connection to an address, or open one."""
        if self._is_closed:
            raise errors.ClosedError("the client was closed")
        now = time.monotonic()
        link = self._links.get(address)
        if link is not None and link.is_idle and now - link.used_at > IDLE_SECONDS:
            link.end("idle for too long")
        if link is None or link.state is LinkState.ENDED:
            credentials = self._directory.credentials
            link = Link(address, self._selector, self._on_push, credentials, self._tls, self._names)
            self._links[address] = link
            link.open(now, self._directory.times.connect)
        return link


def _read_outcome(ask: Ask, answer: Frame | errors.MqError) -> Any:
    if isinstance(answer, Frame):
        return base.read_answer(ask.request, answer, ask.address)
    raise flows.make_failure(ask, answer) from answer
