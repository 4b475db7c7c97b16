"""Run an operator with all objects of one size, and measure it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from benchmarks.operator import usage
from benchmarks.operator.events import Events
from benchmarks.operator.members import Delays, make_members
from benchmarks.operator.sizes import Size
from benchmarks.operator.stage import fill
from benchmarks.operator.told import Watch
from evenkeel.cluster.api import paths
from sandbox import ports
from sandbox.operator import RunningOperator

COLD_PATIENCE_SECONDS = 300.0
FLOW_SECONDS = 30.0
POLL_SECONDS = 60.0
SERVICE, ADDRESS = "evenkeel-members", "10.1.2.3"
"""The coordinator's Service and address. The benchmark's members ask its local port instead."""
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


@dataclass(frozen=True, slots=True)
class Coordinated:
    """The results with members that ask the coordinator."""

    size: Size
    answers_a_second: float
    """How many requests were answered per second while nothing changed."""
    idle_cpu_percent: float
    """Share of one core in that time."""
    delays: Delays
    flow_cpu_percent: float
    """Share of one core while members came and went."""
    memory: Memory


async def many(size: Size, idle_seconds: float, say: Say) -> Many:
    """Measure with many groups."""
    say(f"{size}: filling the API server")
    async with _keep(size, say) as kept:
        say(f"{size}: pods get ready and die")
        cpu = _Cpu(kept.operator.pid)
        delays = await kept.events.flow(FLOW_SECONDS)
        flow_cpu_percent = cpu.percent()
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


async def coordinated(size: Size, say: Say) -> Coordinated:
    """Measure the coordinator while all members ask."""
    say(f"{size}: filling the API server")
    async with contextlib.AsyncExitStack() as stack:
        claim = ports.claim()
        stack.callback(claim.release)
        cluster, client, _ = await stack.enter_async_context(fill(size))
        operator = stack.enter_context(
            RunningOperator(
                cluster.admin.kubeconfig, "--lease-namespace", size.list_spaces()[0],
                "--members-service", SERVICE, "--members-address", ADDRESS,
                "--members-port", str(claim.port),
            )
        )  # fmt: skip
        members = await stack.enter_async_context(make_members(client, size, claim.port))
        say(f"{size}: all join")
        await members.settle(size.all_queues)
        say(f"{size}: nothing changes for {POLL_SECONDS:g} s")
        before, cpu = members.answers, _Cpu(operator.pid)
        await asyncio.sleep(POLL_SECONDS)
        idle_cpu_percent, answers = cpu.percent(), members.answers - before
        say(f"{size}: members come and go")
        cpu = _Cpu(operator.pid)
        delays = await members.come_and_go(FLOW_SECONDS)
        return Coordinated(
            size,
            answers / POLL_SECONDS,
            idle_cpu_percent,
            delays,
            cpu.percent(),
            _memory(operator.pid),
        )


class _Cpu:
    """The processor time that a process uses from now on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._begun, self._before = time.perf_counter(), usage.cpu_seconds(pid)

    def percent(self) -> float:
        """Its share of one core until now."""
        used = usage.cpu_seconds(self._pid) - self._before
        return 100 * used / (time.perf_counter() - self._begun)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A running operator, with its objects."""

    operator: RunningOperator
    start: Start
    events: Events
    watches: Sequence[Watch]

    async def measure_idle(self, seconds: float) -> Idle:
        """Measure a time without events."""
        cpu, begun = _Cpu(self.operator.pid), time.perf_counter()
        told = sum(watch.changes for watch in self.watches)
        await asyncio.sleep(seconds)
        percent, lasted = cpu.percent(), time.perf_counter() - begun
        writes = sum(watch.changes for watch in self.watches) - told
        for watch in self.watches:
            await watch.check_complete()
        return Idle(lasted, writes, percent)


@contextlib.asynccontextmanager
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
