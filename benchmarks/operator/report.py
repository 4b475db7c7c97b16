"""What was measured, as a table, as figures with their targets, and as a page."""

import importlib.metadata
import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence

from benchmarks import page, peers
from benchmarks.operator import api, events, sizes, theirs
from benchmarks.operator.play import Many, Memory, One
from benchmarks.operator.sizes import Size
from benchmarks.targets import Figure
from sandbox import kubernetes, rocketmq

COLD_SECONDS = 30.0
FOLLOWED_MS = 250.0
CHANGED_SECONDS = 5.0
MEMORY_MIB = 250.0
IDLE_PERCENT = 2.0
DEATH_SECONDS = 1.0


def percentile(values: Sequence[float], percent: int) -> float:
    """Tell which of the values that many percent do not exceed."""
    return sorted(values)[-(-len(values) * percent // 100) - 1]


def table(many: Sequence[Many], one: One | None, beside: Mapping[str, float]) -> Iterator[str]:
    """A column a size; then the large group, and RocketMQ."""
    for name, values in _rows(many):
        yield f"{name:<52} {' '.join(f'{value:>19}' for value in values)}"
    if one is not None:
        yield ""
        delays = f"{statistics.median(one.delays):.2f} s, at most {max(one.delays):.2f} s"
        yield f"{one.size}, {one.size.all_queues:,} queues"
        yield f"  a cold start{one.start.seconds:>10.1f} s"
        yield f"  a pod's death until its status: median {delays}"
        yield f"  memory at the end, at its peak: {_memory(one.memory)}"
    yield ""
    yield "RocketMQ's own consumers"
    yield f"  RebalanceService shares the queues out every {theirs.REBALANCE_SECONDS:g} s"
    yield f"  a silent one is dropped after {theirs.DROPPED_SECONDS:g} s, the channelExpiredTimeout"
    for event, seconds in beside.items():
        yield f"  {event}: a queue stands still for {seconds:.2f} s"


def _rows(many: Sequence[Many]) -> Iterator[tuple[str, list[str]]]:
    yield "", [str(each.size) for each in many]
    yield "a cold start until the last status", [f"{each.start.seconds:.1f} s" for each in many]
    yield "  statuses written", [f"{each.start.writes:,}" for each in many]
    yield f"{events.A_SECOND} pods a second get ready or die: p50", _delays(many, 50)
    yield "  p99", _delays(many, 99)
    yield "  the slowest", _delays(many, 100)
    yield "  processor, of one core", [f"{each.flow_cpu_percent:.0f} %" for each in many]
    yield "  so many specs change at once", [f"{each.changed:,}" for each in many]
    yield "  until the last status", [f"{each.changed_seconds:.1f} s" for each in many]
    yield "  the same writes alone", [f"{each.writes_seconds:.1f} s" for each in many]
    yield "idle: seconds", [f"{each.idle.seconds:.0f}" for each in many]
    yield "  writes", [f"{each.idle.writes:,}" for each in many]
    yield "  processor, of one core", [f"{each.idle.cpu_percent:.2f} %" for each in many]
    yield "memory at the end, at its peak", [_memory(each.memory) for each in many]


def _delays(many: Sequence[Many], percent: int) -> list[str]:
    return [f"{1000 * percentile(each.delays, percent):,.0f} ms" for each in many]


def _memory(memory: Memory) -> str:
    return f"{memory.rss_mib:.0f}, {memory.peak_mib:.0f} MiB"


def figures(many: Sequence[Many], one: One | None) -> Iterator[Figure]:
    """Compare with the targets; what must not grow with the groups is held to them at each size."""
    for each in many:
        followed = 1000 * percentile(each.delays, 99)
        yield _at_most(
            f"{each.size}: a pod's event until its status, p99", followed, FOLLOWED_MS, "ms"
        )
        yield _at_most(f"{each.size}: writes while idle", each.idle.writes, 0, "")
        yield _at_most(
            f"{each.size}: processor while idle", each.idle.cpu_percent, IDLE_PERCENT, "%"
        )
        if each.size == sizes.MIDDLE:
            yield _at_most(f"{each.size}: a cold start", each.start.seconds, COLD_SECONDS, "s")
            changed = f"{each.size}: {each.changed} specs changed at once"
            yield _at_most(changed, each.changed_seconds, CHANGED_SECONDS, "s")
            peak = each.memory.peak_mib
            yield _at_most(f"{each.size}: memory at its peak", peak, MEMORY_MIB, "MiB")
    if one is not None:
        yield _at_most(f"{one.size}: a pod's death", max(one.delays), DEATH_SECONDS, "s")


def _at_most(name: str, value: float, limit: float, unit: str) -> Figure:
    return Figure(name, value, None, limit, unit, at_least=False)


def text(command: str, body: Sequence[str]) -> str:
    """Write the page that is committed."""
    size: Size = sizes.MIDDLE
    return page.text(
        "How fast the operator is",
        [*_versions(), f"`{command}`"],
        "The operator is a process of its own with default settings; API server and etcd are\n"
        "real ones on the same machine, etcd without fsync. There is no kubelet: the benchmark\n"
        f"makes the pods and says how they are. {sizes.GROUPS_A_TOPIC} groups share a topic of "
        f"{size.all_queues} queues on\n"
        f"{size.brokers} brokers, in {size.namespaces} namespaces; consumers are pods, found by "
        "their labels.\n"
        "A delay begins when the API server has answered a change, and ends when a watch shows\n"
        "the status with the right owners of all queues. A cold start lasts from the start of\n"
        "the process, with all objects there and no status, to the last status. The same writes\n"
        "alone: the benchmark changes each spec, replaces its status and makes an Event; so long\n"
        "the API server takes, whatever an operator does.\n\n"
        f"RocketMQ's consumers share {theirs.QUEUES} queues; one that is killed is replaced at "
        "once. A queue\nstands still between two messages that are consumed, which is more than "
        "an assignment:\nwhat follows ours until messages flow is in "
        "[the hand-over](RESULTS-handover.md).",
        body,
    )


def _versions() -> Iterator[str]:
    versions = (f"{each} {importlib.metadata.version(each)}" for each in ("kopf", "aiohttp"))
    yield f"Python {platform.python_version()}, {', '.join(versions)}"
    yield f"Kubernetes {kubernetes.VERSION}; {api.IN_FLIGHT} requests of the benchmark in flight"
    yield f"RocketMQ {rocketmq.VERSION}, {peers.ROCKETMQ}"
