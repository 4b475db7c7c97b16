"""Compares both engines of a pinned job: how fast each reads a topic, and what a message costs."""

import contextlib
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.pull.player import Job
from benchmarks.spark import metrics, pinned, processes
from benchmarks.spark.pinned import Load, Pinned
from contract.kinds.jobs import JobEngine
from mq_client.blocking import Client
from sandbox.rocketmq import RocketMq

FEW = Load(400, 1)
_SETTLE_SECONDS = 15
_LOOK_SECONDS = 0.05
_PATIENCE_SECONDS = 300.0
_BATCHES = 2
"""In how many batches a job with batches reads the topic."""
_OFFSETS = "evenkeel_job_offsets_total"
_COUNTING = """
class transform_batches:
    def __init__(self):
        self.rows = 0

    def __call__(self, batches):
        self.rows += sum(batch.num_rows for batch in batches)
        return []
"""


def measure_rate(mq: RocketMq, client: Client, engine: JobEngine, job: Job, rounds: int) -> float:
    """
    Read the topic with a new job in each round; return the median of rows a second.

    Only the second half of the topic is timed.
    """
    return statistics.median(_read(mq, client, engine, job, number) for number in range(rounds))


def _read(mq: RocketMq, client: Client, engine: JobEngine, job: Job, number: int) -> float:
    group = {"group": f"{engine.value}-{number}", "startFrom": "earliest"}
    if engine is JobEngine.BATCH:
        group["maxMessagesPerBatch"] = str(job.messages // _BATCHES)
    with start(mq, client, job.topic, engine, trigger=0, options=group) as running:
        half = _wait_until_read(running, job.messages // 2)
        end = _wait_until_read(running, job.messages)
    return (end[1] - half[1]) / (end[0] - half[0])


def measure_cost(mq: RocketMq, client: Client, engine: JobEngine, seconds: int) -> float:
    """Return the processor milliseconds of one message, while few arrive."""
    topic = f"few-{engine.value}"
    mq.create_topics({topic: 8})
    with (
        start(mq, client, topic, engine, trigger=1, options={}) as running,
        pinned.send_load(FEW, mq, topic),
    ):
        time.sleep(_SETTLE_SECONDS)
        used = processes.cpu_used(running.pid, seconds)
    return 1000 * used / (seconds * FEW.a_second)


@contextlib.contextmanager
def start(
    mq: RocketMq, client: Client, topic: str, engine: JobEngine, *, trigger: float,
    options: dict[str, str],
) -> Iterator[Pinned]:  # fmt: skip
    """Run a flow whose function counts rows, or a job with batches that drops its rows."""
    parts: dict[str, Any] = {"engine": engine.value, "triggerSeconds": trigger}

    def add_users_part(folder: Path) -> dict[str, Any]:
        if engine is JobEngine.BATCH:
            return parts | {"sink": {"format": "noop"}, "transform": {}}
        file = folder / "users.py"
        file.write_text(_COUNTING)
        return parts | {"transform": {"file": str(file)}}

    with pinned.run(mq, client, topic, add_users_part, options) as running:
        yield running


def _wait_until_read(running: Pinned, wanted: int) -> tuple[float, int]:
    """Wait until `wanted` offsets are committed; return the time and the number committed."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        [found] = metrics.read(running.metrics_port, [_OFFSETS])
        if found >= wanted:
            return time.monotonic(), int(found)
        time.sleep(_LOOK_SECONDS)
    raise peers.ProgramFailedError(f"the job has not read {wanted:,} messages in time")
