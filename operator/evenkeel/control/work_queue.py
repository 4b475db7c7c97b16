"""
A queue of work: each key is worked on by one at a time, and a bad or slow one holds up nobody.

The first `touch` after a quiet time acts at once. What comes within `debounce` of the last work on
a key is gathered. Work that fails is tried again, later each time; work that takes too long has
failed. Work may ask to be called again after some seconds, and a touch comes first.

What rests costs little, for it is only glanced at. And what is to come again comes at a whole
second: waking up takes a process longer than a glance, so it wakes up once for many.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from evenkeel.errors import EvenkeelError
from mq_client.errors import MqError

K = TypeVar("K", bound=Hashable)
Do = Callable[[K], Awaitable[float | None]]
"""Works on a key, and says after how many seconds to come again."""
Rests = Callable[[K], float | None]
"""Says after how many seconds to come again, if there is no work."""
log = logging.getLogger("evenkeel")


@dataclass(frozen=True, slots=True)
class WorkPace:
    """How patient the work is."""

    limit_seconds: float = 30.0
    first_pause: float = 1.0
    longest_pause: float = 60.0
    at_once: int = 16
    """Keys that are worked on side by side."""


@dataclass(slots=True)
class _State:
    """What is known of one key."""

    debounce: float
    last_work: float = float("-inf")
    due: float = float("inf")
    timer: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None
    was_touched: bool = False
    failures: int = 0


@dataclass(slots=True)
class WorkCounts:
    """What has been done, for metrics."""

    done: int = 0
    failed: int = 0
    seconds: float = 0.0
    waiting_since: dict[Hashable, float] = field(default_factory=dict)

    def waits(self) -> list[float]:
        """Tell for how many seconds each that is due waits."""
        now = time.monotonic()
        return [now - since for since in self.waiting_since.values() if since <= now]


class WorkQueue(Generic[K]):
    """The queue; it belongs to one event loop."""

    def __init__(
        self, do: Do[K], pace: WorkPace | None = None, rests: Rests[K] = lambda key: None
    ) -> None:
        """Start with nothing to do."""
        self._do = do
        self._rests = rests
        self._pace = pace or WorkPace()
        self._states: dict[K, _State] = {}
        self._room = asyncio.Semaphore(self._pace.at_once)
        self._is_closed = False
        self.counts = WorkCounts()

    def touch(self, key: K, debounce: float = 0.0) -> None:
        """Say that something about a key may have changed."""
        if self._is_closed:
            return
        state = self._states.setdefault(key, _State(debounce))
        state.debounce = debounce
        due = max(asyncio.get_running_loop().time(), state.last_work + debounce)
        self.counts.waiting_since.setdefault(key, due)
        if state.task is not None:
            state.was_touched = True
            return
        self._schedule(key, state, due)

    def forget(self, key: K) -> None:
        """Leave a key alone: its object is gone."""
        state = self._states.pop(key, None)
        self.counts.waiting_since.pop(key, None)
        if state is not None and state.timer is not None:
            state.timer.cancel()

    async def close(self) -> None:
        """Let what runs end, and begin nothing more."""
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
        again = self._rested(key)
        if again is None:
            state.task = asyncio.create_task(self._work(key, state), name=f"work on {key}")
            return
        self.counts.done += 1
        self.counts.waiting_since.pop(key, None)
        self._come_again(key, state, again)

    def _rested(self, key: K) -> float | None:
        try:
            return self._rests(key)
        except Exception:  # noqa: BLE001 the work will fail as well, and is told of with its pauses
            return None

    async def _work(self, key: K, state: _State) -> None:
        async with self._room:
            begun = time.monotonic()
            state.was_touched = False
            self.counts.waiting_since.pop(key, None)
            again = await self._once(key, state)
            self.counts.seconds += time.monotonic() - begun
        state.task = None
        state.last_work = asyncio.get_running_loop().time()
        if self._states.get(key) is not state:
            return
        if again is not None:
            self._come_again(key, state, again)
        if state.was_touched and not state.failures:
            self._schedule(key, state, state.last_work + state.debounce)

    async def _once(self, key: K, state: _State) -> float | None:
        self.counts.done += 1
        try:
            async with asyncio.timeout(self._pace.limit_seconds):
                again = await self._do(key)
        except TimeoutError:
            log.warning("%s: it took longer than %g s", key, self._pace.limit_seconds)
        except (EvenkeelError, MqError, OSError) as error:
            log.warning("%s: %s", key, error)
        except Exception:  # whatever it is, others must go on
            log.exception("%s: this is a defect of Evenkeel; the object is tried again", key)
        else:
            state.failures = 0
            return again
        self.counts.failed += 1
        state.failures += 1
        pause = self._pace.first_pause * 2.0 ** min(state.failures - 1, 30)
        return min(pause, self._pace.longest_pause)
