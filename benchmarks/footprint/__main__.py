"""
Measures memory and CPU of operator, driver and executors: `python -m benchmarks.footprint`.

Prints a table. Runs on a real node, which needs root.
"""

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import page, peers, progress
from benchmarks.footprint import usage
from benchmarks.footprint.usage import Use
from benchmarks.handover import manifests
from sandbox import jars, kubernetes, process, rocketmq
from sandbox.node.shop import OPERATORS, RELEASE, Shop, ShopGroup, open_shop

RESULTS = Path(__file__).parents[1] / "RESULTS-footprint.md"
GROUP, EXECUTORS, QUEUES = "orders", 2, 4
A_SECOND, A_BATCH = 2_000, 20
WINDOW_SECONDS = 120.0
WARM_SECONDS = 30.0

Row = tuple[str, str, Sequence[Use]]
"""A part of the product, the situation, and the usage of each pod of that part."""


def main() -> int:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.footprint", description=__doc__)
    options.add_argument("--update", action="store_true", help=f"write {RESULTS.name}")
    is_update = options.parse_args().update
    try:
        rows = list(_measure())
    except (jars.JarsError, process.SandboxError, peers.ProgramFailedError) as error:
        print(f"bench-footprint: {error}", file=sys.stderr)
        return 2
    body = list(_make_table(rows))
    print("\n".join(body))
    if is_update:
        page.write(RESULTS, _format_text(body))
    return 0


def _measure() -> Iterator[Row]:
    with open_shop() as shop:
        group = ShopGroup(shop, GROUP)
        operator = _list_names(shop.list_pods(OPERATORS, RELEASE))
        yield "operator", "no group", _measure_use(shop, "the operator without a group", operator)
        shop.apply(manifests.fill("ours.yaml", NAME=GROUP, QUEUES=QUEUES, CONSUMERS=EXECUTORS))
        group.wait_until_settled()
        driver, executors = [group.driver], _list_names(shop.list_pods(group.executor_pods))
        parts = {"operator": operator, "driver": driver, "executor": executors}
        for when, flowing in (
            ("idle, no messages", contextlib.nullcontext()),
            (f"{A_SECOND:,} messages a second", _flowing(shop)),
        ):
            with flowing:
                _measure_use(shop, f"warming up: {when}", operator, WARM_SECONDS)
                found = _measure_use(
                    shop, when, [name for names in parts.values() for name in names]
                )
            of = dict(zip((name for names in parts.values() for name in names), found, strict=True))
            for part, names in parts.items():
                yield part, when, [of[name] for name in names]


@contextlib.contextmanager
def _flowing(shop: Shop) -> Iterator[None]:
    command = [
        sys.executable, "-m", "benchmarks.spark.sender", shop.name_server(), GROUP,
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
    yield f"{'':<12}{'':<28}{'MiB':>8}{'% of a core':>14}"
    for part, when, uses in rows:
        memory, cores = max(use.memory for use in uses), max(use.cores for use in uses)
        yield f"{part:<12}{when:<28}{memory:>8.0f}{100 * cores:>14.1f}"


def _format_text(body: Sequence[str]) -> str:
    return page.format_page(
        "Resource usage",
        [
            f"Kubernetes {kubernetes.VERSION}, one node; brokers: RocketMQ {rocketmq.VERSION}",
            "`make bench-footprint`",
        ],
        f"One operator, and a group with a job of {EXECUTORS} executors and a trigger of 1 s. All\n"
        "run in pods with the default images and the default memory of chart and job. Messages\n"
        f"have 1 KiB and are spread over {2 * QUEUES} queues. The figures come from the kubelet:\n"
        "the working set, which includes recently read files, and the CPU time over\n"
        f"{WINDOW_SECONDS:g} s. For executors, the table shows the highest value.",
        body,
    )


if __name__ == "__main__":
    sys.exit(main())
