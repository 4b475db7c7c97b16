"""
A queue of keys to work on. One task at a time works on a key, and many keys are worked on at once.

The first `touch` of an idle key starts its work at once. Touches within `debounce` after the last
work are combined. Failed work is retried with growing pauses. Work that exceeds its time limit
counts as failed. The work returns the number of seconds until it must be repeated. A touch
repeats it earlier.

Repeats are cheap: `rests` first checks whether there is anything to do. Repeats are due on whole
seconds, so that the process wakes up once for many keys.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from evenkeel.errors import EvenkeelError
from mq_client.errors import MqError

K = TypeVar("K", bound=Hashable)
Do = Callable[[K], Awaitable[float | None]]
"""Works on a key. Returns the seconds until the work must be repeated; None for no repeat."""
Rests = Callable[[K], float | None]
"""Returns the seconds until the next check, or None if there is work to do."""
log = logging.getLogger("evenkeel")


@dataclass(frozen=True, slots=True)
class WorkPace:
    """Time limits and retries."""

    limit_seconds: float = 30.0
    first_pause: float = 1.0
    longest_pause: float = 60.0
    at_once: int = 16
    """Maximum number of keys that are worked on in parallel."""


@dataclass(slots=True)
class _State:
    """The state of one key."""

    debounce: float
    last_work: float = float("-inf")
    due: float = float("inf")
    timer: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None
    was_touched: bool = False
    failures: int = 0
    waiting_since: float | None = None
    """
    When the next work is due, perhaps in the past. None if no work is due, or if work has begun.
    """


@dataclass(slots=True)
class WorkCounts:
    """Counters for metrics."""

    done: int = 0
    failed: int = 0
    seconds: float = 0.0


class WorkQueue(Generic[K]):
    """A work queue of one event loop."""

    def __init__(
        self, do: Do[K], pace: WorkPace | None = None, rests: Rests[K] = lambda key: None
    ) -> None:
        """Begin empty."""
        self._do = do
        self._rests = rests
        self._pace = pace or WorkPace()
        self._states: dict[K, _State] = {}
        self._room = asyncio.Semaphore(self._pace.at_once)
        self._is_closed = False
        self.counts = WorkCounts()

    def list_waits(self) -> list[float]:
        """List for each due key how many seconds it has waited."""
        now = time.monotonic()
        since = (each.waiting_since for each in self._states.values())
        return [now - each for each in since if each is not None and each <= now]

    def touch(self, key: K, debounce: float = 0.0, delay: float = 0.0) -> None:
        """Note that something about a key may have changed. Its work starts after the delay."""
        if self._is_closed:
            return
        state = self._states.setdefault(key, _State(debounce))
        state.debounce = debounce
        due = max(asyncio.get_running_loop().time() + delay, state.last_work + debounce)
        if state.waiting_since is None:
            state.waiting_since = due
        if state.task is not None:
            state.was_touched = True
            return
        self._schedule(key, state, due)

    def forget(self, key: K) -> None:
        """Drop a key whose object was deleted."""
        state = self._states.pop(key, None)
        if state is not None and state.timer is not None:
            state.timer.cancel()

    async def close(self) -> None:
        """Finish the running work, and start no more."""
        self._is_closed = True
        running = [state.task for state in self._states.values() if state.task is not None]
        for key in list(self._states):
            self.forget(key)
        await asyncio.gather(*running, return_exceptions=True)

    def _schedule(self, key: K, state: _State, due: float) -> None:
        if due >= state.due:
            return
        if state.timer is not None:
            state.timer.cancel()
        state.due = due
        state.timer = asyncio.get_running_loop().call_at(due, self._begin, key, state)

    def _come_again(self, key: K, state: _State, seconds: float) -> None:
        due = asyncio.get_running_loop().time() + seconds
        self._schedule(key, state, math.ceil(due) if seconds > 1 else due)

    def _begin(self, key: K, state: _State) -> None:
        state.timer, state.due = None, float("inf")
        again = self._glance(key)
        if again is None:
            state.task = asyncio.create_task(self._work(key, state), name=f"work on {key}")
            return
        self.counts.done += 1
        state.waiting_since = None
        self._come_again(key, state, again)

    def _glance(self, key: K) -> float | None:
        try:
            return self._rests(key)
        except Exception:  # noqa: BLE001 the work will fail too, and its error is logged
            return None

    async def _work(self, key: K, state: _State) -> None:
        async with self._room:
            begun = time.monotonic()
            state.was_touched = False
            state.waiting_since = None
            again = await self._try_once(key, state)
            self.counts.seconds += time.monotonic() - begun
        state.task = None
        state.last_work = asyncio.get_running_loop().time()
        if self._states.get(key) is not state:
            return
        if again is not None:
            self._come_again(key, state, again)
        if state.was_touched and not state.failures:
            self._schedule(key, state, state.last_work + state.debounce)

    async def _try_once(self, key: K, state: _State) -> float | None:
        self.counts.done += 1
        try:
            async with asyncio.timeout(self._pace.limit_seconds):
                again = await self._do(key)
        except TimeoutError:
            log.warning("%s: a reconcile took longer than %g s", key, self._pace.limit_seconds)
        except (EvenkeelError, MqError, OSError) as error:
            log.warning("%s: %s", key, error)
        except Exception:  # work on other keys must continue
            log.exception(
                "%s: this is a defect of Evenkeel; the object is reconciled again later", key
            )
        else:
            state.failures = 0
            return again
        self.counts.failed += 1
        state.failures += 1
        pause = self._pace.first_pause * 2.0 ** min(state.failures - 1, 30)
        return min(pause, self._pace.longest_pause)
