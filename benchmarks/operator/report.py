"""Formats the results as a table, as figures with their targets, and as a page."""

import importlib.metadata
import platform
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchmarks import page, peers, targets
from benchmarks.operator import api, events, members, sizes, theirs
from benchmarks.operator.play import Coordinated, Many, Memory, One
from benchmarks.operator.sizes import Size
from benchmarks.targets import Figure
from sandbox import kubernetes, rocketmq

COLD_SECONDS = 30.0
FOLLOWED_MS = 250.0
CHANGED_SECONDS = 5.0
MEMORY_MIB = 250.0
IDLE_PERCENT = 2.0
DEATH_SECONDS = 1.0
POLLS_PERCENT = 50.0
GRANTED_MS = 100.0


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that at least `percent` percent of all values do not exceed."""
    return sorted(values)[-(-len(values) * percent // 100) - 1]


def make_table(
    many: Sequence[Many],
    one: One | None,
    coordinated: Coordinated | None,
    beside: Mapping[str, float],
) -> Iterator[str]:
    """Yield a table with a column per size; then the large group, the members, and RocketMQ."""
    for name, values in _make_rows(many):
        yield f"{name:<44} {' '.join(f'{value:>14}' for value in values)}"
    if one is not None:
        yield ""
        delays = f"{statistics.median(one.delays):.2f} s, at most {max(one.delays):.2f} s"
        yield f"{one.size}, {one.size.all_queues:,} queues"
        yield f"  cold start: {one.start.seconds:.1f} s"
        yield f"  from a pod's death to the status: median {delays}"
        yield f"  memory at the end, peak: {_memory(one.memory)}"
    if coordinated is not None:
        yield ""
        yield from _list_coordinated(coordinated)
    yield ""
    yield "RocketMQ's own consumers"
    yield f"  RebalanceService assigns queues every {theirs.REBALANCE_SECONDS:g} s"
    yield f"  silent clients are dropped after {theirs.DROPPED_SECONDS:g} s (channelExpiredTimeout)"
    for event, seconds in beside.items():
        yield f"  {event}: a queue is not read for {seconds:.2f} s"


def _list_coordinated(found: Coordinated) -> Iterator[str]:
    yield f"{found.size}, {found.size.all_queues} queues a topic"
    cpu_ms = 10 * found.idle_cpu_percent / found.answers_a_second
    yield (
        f"  all ask: {found.answers_a_second:,.0f} answers/s, {found.idle_cpu_percent:.0f} % of a "
        f"core, {cpu_ms:.2f} ms an answer"
    )
    yield (
        f"  {members.A_SECOND} leave and {members.A_SECOND} join per second: "
        f"{found.flow_cpu_percent:.0f} % of a core"
    )
    for name, delays in (("leave", found.delays.left), ("join", found.delays.joined)):
        shown = (f"{1000 * percentile(delays, each):,.0f} ms" for each in (50, 99, 100))
        yield "    granted after a {}: p50 {}, p99 {}, slowest {}".format(name, *shown)
    yield f"  memory at the end, peak: {_memory(found.memory)}"


def _make_rows(many: Sequence[Many]) -> Iterator[tuple[str, list[str]]]:
    for line in range(2):
        yield "", [_split_name(each.size)[line] for each in many]
    yield "cold start, until the last status", [f"{each.start.seconds:.1f} s" for each in many]
    yield "  statuses written", [f"{each.start.writes:,}" for each in many]
    yield f"{events.A_SECOND} pod changes per second, delay: p50", _list_delays(many, 50)
    yield "  p99", _list_delays(many, 99)
    yield "  slowest", _list_delays(many, 100)
    yield "  CPU, share of a core", [f"{each.flow_cpu_percent:.0f} %" for each in many]
    yield "specs that change at the same time", [f"{each.changed:,}" for each in many]
    yield "  until the last status", [f"{each.changed_seconds:.1f} s" for each in many]
    yield "  the same writes without an operator", [f"{each.writes_seconds:.1f} s" for each in many]
    yield "idle, seconds", [f"{each.idle.seconds:.0f}" for each in many]
    yield "  writes", [f"{each.idle.writes:,}" for each in many]
    yield "  CPU, share of a core", [f"{each.idle.cpu_percent:.2f} %" for each in many]
    yield "memory at the end, peak", [_memory(each.memory) for each in many]


def _split_name(size: Size) -> list[str]:
    """Split `100 groups x 10 pods` into the two lines of a narrow heading."""
    groups, pods = str(size).split(" x ")
    return [groups, f"x {pods}"]


def _list_delays(many: Sequence[Many], percent: int) -> list[str]:
    return [f"{1000 * percentile(each.delays, percent):,.0f} ms" for each in many]


def _memory(memory: Memory) -> str:
    return f"{memory.rss_mib:.0f}, {memory.peak_mib:.0f} MiB"


def list_figures(
    many: Sequence[Many], one: One | None, coordinated: Coordinated | None
) -> Iterator[Figure]:
    """Compare the results with the targets; some targets apply at every size, some at one."""
    for each in many:
        followed = 1000 * percentile(each.delays, 99)
        yield _limit(
            f"{each.size}: from a pod's event to the status, p99", followed, FOLLOWED_MS, "ms"
        )
        yield _limit(f"{each.size}: writes while idle", each.idle.writes, 0, "")
        yield _limit(f"{each.size}: CPU while idle", each.idle.cpu_percent, IDLE_PERCENT, "%")
        if each.size == sizes.MIDDLE:
            yield _limit(f"{each.size}: cold start", each.start.seconds, COLD_SECONDS, "s")
            changed = f"{each.size}: {each.changed} specs change at the same time"
            yield _limit(changed, each.changed_seconds, CHANGED_SECONDS, "s")
            peak = each.memory.peak_mib
            yield _limit(f"{each.size}: peak memory", peak, MEMORY_MIB, "MiB")
    if one is not None:
        yield _limit(
            f"{one.size}: from a pod's death to the status", max(one.delays), DEATH_SECONDS, "s"
        )
    if coordinated is not None:
        size, delays = coordinated.size, coordinated.delays
        polls = coordinated.idle_cpu_percent
        yield _limit(f"{size}: CPU while all ask and nothing changes", polls, POLLS_PERCENT, "%")
        for name, seconds in (("leave", delays.left), ("join", delays.joined)):
            p99 = 1000 * percentile(seconds, 99)
            yield _limit(f"{size}: from a {name} until all is granted, p99", p99, GRANTED_MS, "ms")


def _limit(name: str, value: float, limit: float, unit: str) -> Figure:
    return Figure(name, value, None, limit, unit, at_least=False)


def format_page(command: str, body: Sequence[str], compared: Iterable[Figure]) -> str:
    """Make the results page, which is committed."""
    size: Size = sizes.MIDDLE
    return page.format_page(
        "How fast the operator is",
        [*_list_versions(), f"`{command}`"],
        "The operator runs in its own process with default settings. API server and etcd are real\n"
        "and run on the same machine, etcd without fsync. There is no kubelet: the benchmark\n"
        "creates the pods and sets their status.\n"
        f"{sizes.GROUPS_A_TOPIC} groups share a topic of {size.all_queues} queues on "
        f"{size.brokers} brokers, in {size.namespaces} namespaces.\n"
        "The consumers are pods, found by their labels.\n\n"
        "- Delay: from the API server's answer to a change, until a watch shows the status with\n"
        "  the correct owners of all queues.\n"
        "- Cold start: from the start of the process to the last status. All objects exist at the\n"
        "  start, without a status.\n"
        "- The same writes without an operator: the benchmark changes each spec, replaces its\n"
        "  status and creates an Event. The API server alone takes this long.\n"
        "- Members: the benchmark runs all members in one process. They ask over TLS, each with\n"
        "  the token of its pod and with its own connections, and release queues at once. A leave\n"
        "  is measured until other members have grants for all queues of the leaving member. A\n"
        "  join is measured until the new member has grants for all queues that it owns.\n\n"
        f"RocketMQ's consumers share {theirs.QUEUES} queues. A killed consumer is replaced "
        "immediately. The\n"
        "time is measured between two messages consumed from a queue, so it includes more than "
        "the\nassignment. [The handover](RESULTS-handover.md) measures the same for "
        "Evenkeel.",
        body,
        map(targets.format_cells, compared),
    )


def _list_versions() -> Iterator[str]:
    versions = (f"{each} {importlib.metadata.version(each)}" for each in ("kopf", "aiohttp"))
    yield f"Python {platform.python_version()}, {', '.join(versions)}"
    yield f"Kubernetes {kubernetes.VERSION}; {api.IN_FLIGHT} requests of the benchmark in flight"
    yield f"RocketMQ {rocketmq.VERSION}, {peers.ROCKETMQ}"
