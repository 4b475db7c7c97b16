"""Run an operator with all objects of one size, and measure it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.operator import usage
from benchmarks.operator.events import Events
from benchmarks.operator.sizes import Size
from benchmarks.operator.stage import fill
from benchmarks.operator.told import Watch
from evenkeel.cluster.api import paths
from sandbox.operator import RunningOperator

COLD_PATIENCE_SECONDS = 300.0
FLOW_SECONDS = 30.0
CHANGED_AT_ONCE = 500
DEATHS = 10
SETTLE_SECONDS = 10.0
_LOOK_SECONDS = 1.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Start:
    """A cold start, without any status."""

    seconds: float
    """The time from the start of the process to the last status."""
    writes: int


@dataclass(frozen=True, slots=True)
class Idle:
    """A time without events."""

    seconds: float
    writes: int
    cpu_percent: float
    """Share of one core."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of the process at the end."""

    rss_mib: float
    peak_mib: float


@dataclass(frozen=True, slots=True)
class Many:
    """The results with many groups."""

    size: Size
    start: Start
    delays: Sequence[float]
    """The times from events of pods to the new statuses, in seconds."""
    flow_cpu_percent: float
    """Share of one core during these events."""
    changed: int
    changed_seconds: float
    """The time from the first of many concurrent changes to the last status."""
    writes_seconds: float
    """How long the same writes take without an operator: what the API server alone needs."""
    idle: Idle
    memory: Memory


@dataclass(frozen=True, slots=True)
class One:
    """The results with one large group."""

    size: Size
    start: Start
    delays: Sequence[float]
    """The times from deaths of pods to the new statuses."""
    memory: Memory


async def many(size: Size, idle_seconds: float, say: Say) -> Many:
    """Measure with many groups."""
    say(f"{size}: filling the API server")
    async with _keep(size, say) as kept:
        say(f"{size}: pods get ready and die")
        before, begun = usage.cpu_seconds(kept.operator.pid), time.perf_counter()
        delays = await kept.events.flow(FLOW_SECONDS)
        used = usage.cpu_seconds(kept.operator.pid) - before
        flow_cpu_percent = 100 * used / (time.perf_counter() - begun)
        changed = size.group_keys()[:CHANGED_AT_ONCE]
        await asyncio.sleep(SETTLE_SECONDS)
        say(f"{size}: {len(changed)} specs change at once")
        seconds = await kept.events.pin_at_once(changed)
        await asyncio.sleep(SETTLE_SECONDS)
        say(f"{size}: idle for {idle_seconds:g} s")
        idle = await kept.measure_idle(idle_seconds)
        memory = _memory(kept.operator.pid)
        kept.operator.stop()
        say(f"{size}: the same writes without an operator")
        alone = await kept.events.follow_pins(changed)
    return Many(
        size, kept.start, delays, flow_cpu_percent, len(changed), seconds, alone, idle, memory
    )


async def one(size: Size, say: Say) -> One:
    """Measure with one large group."""
    say(f"{size}: filling the API server")
    async with _keep(size, say) as kept:
        say(f"{size}: pods die")
        delays = await kept.events.play_deaths(DEATHS)
        return One(size, kept.start, delays, _memory(kept.operator.pid))


@dataclass(frozen=True, slots=True)
class _Kept:
    """A running operator, with its objects."""

    operator: RunningOperator
    start: Start
    events: Events
    watches: Sequence[Watch]

    async def measure_idle(self, seconds: float) -> Idle:
        """Measure a time without events."""
        begun, before = time.perf_counter(), usage.cpu_seconds(self.operator.pid)
        told = sum(watch.changes for watch in self.watches)
        await asyncio.sleep(seconds)
        used, lasted = usage.cpu_seconds(self.operator.pid) - before, time.perf_counter() - begun
        writes = sum(watch.changes for watch in self.watches) - told
        for watch in self.watches:
            await watch.check_complete()
        return Idle(lasted, writes, 100 * used / lasted)


@asynccontextmanager
async def _keep(size: Size, say: Say) -> AsyncIterator[_Kept]:
    """Start an operator on a filled API server, and wait until everything is assigned."""
    async with fill(size) as (cluster, client, stage):
        groups, topics = Watch(client, paths.GROUPS), Watch(client, paths.TOPICS)
        async with groups.following(), topics.following():
            events = Events(stage, groups, size)
            shown = [groups.await_shown(key, events.expect_all(key)) for key in size.group_keys()]
            begun = time.perf_counter()
            say(f"{size}: a cold start")
            with RunningOperator(cluster.admin.kubeconfig) as operator:
                await _wait_until_shown(shown, operator)
                await asyncio.sleep(SETTLE_SECONDS)
                start = Start(
                    max(groups.last_at, topics.last_at) - begun, groups.changes + topics.changes
                )
                yield _Kept(operator, start, events, (groups, topics))


async def _wait_until_shown(
    shown: Sequence[asyncio.Future[float]], operator: RunningOperator
) -> None:
    waiting = asyncio.gather(*shown)
    deadline = time.perf_counter() + COLD_PATIENCE_SECONDS
    while not waiting.done():
        await asyncio.wait([waiting], timeout=_LOOK_SECONDS)
        if not operator.is_running:
            raise operator.make_error("it has ended")
        if time.perf_counter() > deadline:
            left = sum(not each.done() for each in shown)
            raise operator.make_error(
                f"{left} of {len(shown)} groups are not assigned after {COLD_PATIENCE_SECONDS:g} s"
            )
    await waiting


def _memory(pid: int) -> Memory:
    return Memory(usage.rss_mib(pid), usage.peak_mib(pid))
