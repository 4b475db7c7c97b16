"""
Play events of pods at a steady rate, and measure how soon statuses follow.

In each selected group, one pod becomes unready or is deleted. With the group's next event it
becomes ready again or is created again, and so on. The next event of a group follows only after
some seconds, so that each new status belongs to one event.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.operator.api import side_by_side
from benchmarks.operator.sizes import Size
from benchmarks.operator.stage import Stage
from benchmarks.operator.told import Wanted, Watch
from evenkeel.objects import Key
from sandbox.process import SandboxError

A_SECOND = 20
MOST_PICKED = 300
PATIENCE_SECONDS = 180.0
QUIET_SECONDS = 1.0
"""The pause after which a group counts as quiet. It is longer than any debounce."""


class NotShownError(SandboxError):
    """A status did not show the expected state in time."""


@dataclass(slots=True)
class _Group:
    """A selected group. The events happen to its first pod."""

    key: Key
    pods: Sequence[Key]
    is_ready: bool = True
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Events:
    """Plays events on the pods of one stage."""

    def __init__(self, stage: Stage, watch: Watch, size: Size) -> None:
        """Prepare; all pods are ready."""
        self._stage = stage
        self._watch = watch
        self._size = size

    def expect_all(self, group: Key) -> Wanted:
        """Return what a group's status must show while all its pods are ready."""
        return self._expect(list(self._size.list_pods(group)))

    async def flow(self, seconds: float) -> list[float]:
        """Start events at a steady rate, without waiting for earlier ones. Return the delays."""
        keys = self._size.group_keys()
        picked = [
            _Group(key, list(self._size.list_pods(key)))
            for key in random.sample(keys, min(len(keys), MOST_PICKED))
        ]
        begun = time.perf_counter()
        under_way = []
        for number in range(round(seconds * A_SECOND)):
            await asyncio.sleep(begun + number / A_SECOND - time.perf_counter())
            group = picked[number % len(picked)]
            under_way.append(asyncio.create_task(self._play(group, kill=bool(number % 2))))
        return await asyncio.gather(*under_way)

    async def play_deaths(self, count: int) -> list[float]:
        """Kill and replace a pod `count` times. Return the delay of the status after each death."""
        key = self._size.group_keys()[0]
        group = _Group(key, list(self._size.list_pods(key)))
        delays = []
        for _ in range(count):
            await asyncio.sleep(QUIET_SECONDS)
            delays.append(await self._play(group, kill=True))
            await asyncio.sleep(QUIET_SECONDS)
            await self._play(group, kill=False)
        return delays

    async def pin_at_once(self, keys: Sequence[Key]) -> float:
        """Change the specs of these groups at once. Return how long the statuses took to follow."""
        begun = time.perf_counter()
        shown = []
        for key in keys:
            pods = list(self._size.list_pods(key))[1:]
            shown.append(self._watch.await_shown(key, self._expect(pods)))
        changes = [self._stage.pin(key, list(self._size.list_pods(key))[1:]) for key in keys]
        await asyncio.gather(*changes)
        return max([await _soon(each, key) for each, key in zip(shown, keys, strict=True)]) - begun

    async def follow_pins(self, keys: Sequence[Key]) -> float:
        """Make the same writes without an operator. Return the seconds that they take."""
        begun = time.perf_counter()
        await side_by_side(
            self._stage.follow_pin(key, list(self._size.list_pods(key))) for key in keys
        )
        return time.perf_counter() - begun

    async def _play(self, group: _Group, *, kill: bool) -> float:
        """Play one event. Return the seconds from the API server's answer to the new status."""
        async with group.turn:
            pod, is_killed = group.pods[0], kill and group.is_ready
            left = group.pods[1:] if group.is_ready else group.pods
            shown = self._watch.await_shown(group.key, self._expect(left))
            if is_killed:
                await self._stage.kill_pod(pod)
            else:
                await self._stage.set_ready(pod, ready=not group.is_ready)
            answered = time.perf_counter()
            at = await _soon(shown, group.key)
            group.is_ready = not group.is_ready
            if is_killed:  # the pod becomes ready with the group's next event
                await self._stage.make_pod(pod, group.key.name)
            return max(0.0, at - answered)

    def _expect(self, pods: Sequence[Key]) -> Wanted:
        return Wanted(frozenset(pod.name for pod in pods), self._size.all_queues)


async def _soon(shown: asyncio.Future[float], key: Key) -> float:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await shown
    except TimeoutError:
        text = f"ConsumerGroup {key} does not show its new assignment after {PATIENCE_SECONDS:g} s"
        raise NotShownError(text) from None
