"""
Measures memory and CPU of operator, driver and executors, and how long a driver's start takes.

`python -m benchmarks.footprint` prints a table, and each figure beside its target. It exits with 1
if a target is missed. It runs on a real node, which needs root.
"""

import argparse
import contextlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import page, peers, progress, targets
from benchmarks.footprint import usage
from benchmarks.footprint.usage import Use
from benchmarks.handover import manifests
from benchmarks.targets import Figure
from evenkeel.cluster.manifest.pod_paths import METRICS_PORT
from sandbox import jars, kubernetes, process, rocketmq
from sandbox.node.shop import GROUPS, OPERATORS, RELEASE, SHOP, Shop, ShopGroup, open_shop

RESULTS = Path(__file__).parents[1] / "RESULTS-footprint.md"
OPERATOR = "operator"
JOBS = {"batches": "job.yaml", "flow": "flow.yaml"}
"""The manifest for each kind of job."""
EXECUTORS, QUEUES = 2, 4
A_SECOND, A_BATCH = 2_000, 20
WINDOW_SECONDS = 120.0
WARM_SECONDS = 30.0
LOADED, IDLE = f"{A_SECOND:,} messages a second", "idle, no messages"
MOST_IDLE_MIB = {"batches": 450, "flow": 400}
MOST_IDLE_PERCENT = 1.5
"""For a whole job: driver and executors."""
_STARTED = re.compile(r'^evenkeel_job_start_seconds{step="(\w+)"} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """The usage of each pod of a part of the product, in a situation."""

    of: str
    """The operator, or a kind of job."""
    part: str
    when: str
    uses: Sequence[Use]


@dataclass(frozen=True, slots=True)
class Start:
    """When each step of a driver's start was done, in seconds."""

    of: str
    steps: Mapping[str, float]


def main() -> int:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.footprint", description=__doc__)
    options.add_argument("--update", action="store_true", help=f"write {RESULTS.name}")
    is_update = options.parse_args().update
    try:
        rows, starts = _measure()
    except (jars.JarsError, process.SandboxError, peers.ProgramFailedError) as error:
        print(f"bench-footprint: {error}", file=sys.stderr)
        return 2
    body, figures = [*_make_table(rows), "", *_list_starts(starts)], list(_list_figures(rows))
    print("\n".join([*body, "", *targets.format_lines(figures)]))
    if is_update:
        page.write(RESULTS, _format_text(body, figures))
    return 0 if all(figure.is_ok for figure in figures) else 1


def _measure() -> tuple[list[Row], list[Start]]:
    rows: list[Row] = []
    with open_shop() as shop:
        operator = _list_names(shop.list_pods(OPERATORS, RELEASE))
        found = _measure_use(shop, "the operator without a group", operator)
        rows.append(Row(OPERATOR, OPERATOR, "no group", found))
        starts = [_measure_job(shop, kind, rows) for kind in JOBS]
    return rows, starts


def _measure_job(shop: Shop, kind: str, rows: list[Row]) -> Start:
    """Measure a job of this kind under load and then idle. It starts under load."""
    group = ShopGroup(shop, kind)
    values = {"NAME": kind, "QUEUES": QUEUES, "CONSUMERS": EXECUTORS, "LANES": 1, "TRIGGER": "1s"}
    shop.apply(manifests.fill(JOBS[kind], **values))
    shop.wait_until_made(kind)
    with _flowing(shop, kind):
        group.wait_until_settled()
        rows += _measure_parts(group, LOADED)
        start = Start(kind, _read_start(group))
    rows += _measure_parts(group, IDLE)
    shop.kubectl("-n", SHOP, "delete", GROUPS, kind, "--wait")
    return start


def _measure_parts(group: ShopGroup, when: str) -> Iterator[Row]:
    """Measure driver and executors together, after a while."""
    parts = {
        "driver": [group.driver],
        "executor": _list_names(group.shop.list_pods(group.executor_pods)),
    }
    names = [name for of_part in parts.values() for name in of_part]
    _measure_use(group.shop, f"warming up: {group.name}, {when}", names, WARM_SECONDS)
    found = dict(zip(names, _measure_use(group.shop, f"{group.name}, {when}", names), strict=True))
    for part, of_part in parts.items():
        yield Row(group.name, part, when, [found[name] for name in of_part])


def _read_start(group: ShopGroup) -> Mapping[str, float]:
    """Read when each step of the driver's start was done."""
    path = f"/api/v1/namespaces/{SHOP}/pods/{group.driver}:{METRICS_PORT}/proxy/metrics"
    shown = group.shop.kubectl("get", "--raw", path)
    return {step: float(at) for step, at in _STARTED.findall(shown)}


@contextlib.contextmanager
def _flowing(shop: Shop, topic: str) -> Iterator[None]:
    command = [
        sys.executable, "-m", "benchmarks.spark.sender", shop.name_server(), topic,
        str(A_SECOND), str(A_BATCH),
    ]  # fmt: skip
    with peers.start("the sender", command, subprocess.PIPE) as sender:
        yield
        if sender.popen.poll() is not None:
            raise sender.make_failure("has ended")


def _list_names(pods: Sequence[dict[str, dict[str, str]]]) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in pods)


def _measure_use(
    shop: Shop, what: str, pods: Sequence[str], seconds: float = WINDOW_SECONDS
) -> list[Use]:
    progress.say(f"{what}: {seconds:g} s")
    before = usage.take_samples(shop.node.admin)
    found = usage.later(shop.node.admin, {name: before[name] for name in pods}, seconds)
    return [found[name] for name in pods]


def _make_table(rows: Sequence[Row]) -> Iterator[str]:
    yield f"{'':<10}{'':<10}{'':<28}{'MiB':>8}{'% of a core':>14}"
    for row in rows:
        memory, cores = max(use.memory for use in row.uses), max(use.cores for use in row.uses)
        yield f"{row.of:<10}{row.part:<10}{row.when:<28}{memory:>8.0f}{100 * cores:>14.1f}"


def _list_starts(starts: Iterable[Start]) -> Iterator[str]:
    for start in starts:
        steps = ", ".join(f"{step} {at:.1f} s" for step, at in start.steps.items())
        yield f"start, {start.of}: {steps}"


def _list_figures(rows: Sequence[Row]) -> Iterator[Figure]:
    for kind, most in MOST_IDLE_MIB.items():
        idle = [row for row in rows if (row.of, row.when) == (kind, IDLE)]
        [memory] = [use.memory for row in idle if row.part == "driver" for use in row.uses]
        cores = sum(use.cores for row in idle for use in row.uses)
        name = f"{kind}: memory of an idle driver"
        yield Figure(name, memory, None, most, "MiB", at_least=False)
        name = f"{kind}: CPU of an idle job, driver and executors"
        yield Figure(name, 100 * cores, None, MOST_IDLE_PERCENT, "% of a core", at_least=False)


def _format_text(body: Sequence[str], figures: Iterable[Figure]) -> str:
    return page.format_page(
        "Resource usage",
        [
            f"Kubernetes {kubernetes.VERSION}, one node; brokers: RocketMQ {rocketmq.VERSION}",
            "`make bench-footprint`",
        ],
        f"One operator, and a group with a job of {EXECUTORS} executors: first with batches, one\n"
        "lane and a trigger of 1 s, then as a flow. All run in pods with the default images and\n"
        "the default memory of chart and job. Messages have 1 KiB and are spread over\n"
        f"{2 * QUEUES} queues. The figures come from the kubelet: the working set, which\n"
        f"includes recently read files, and the CPU time over {WINDOW_SECONDS:g} s. For\n"
        "executors, the table shows the highest value. `start` is when each step of the\n"
        "driver's start was done, while messages arrived already.",
        body,
        map(targets.format_cells, figures),
    )


if __name__ == "__main__":
    sys.exit(main())
