"""Measures a pinned job under load: how long it plans, and how soon it follows an assignment."""

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.spark.metrics import Histogram
from mq_client.blocking import Client
from mq_client.values import TopicConfig
from sandbox import jobs, ports
from sandbox.jobs import RunningJob
from sandbox.rocketmq import RocketMq

EXECUTORS = 2
MASTER = f"local-cluster[{EXECUTORS},1,1024]"
TRIGGER_SECONDS = 1
_PLANNING = "evenkeel_job_planning_seconds"
_WARM_UP_BATCHES = 15


@dataclass(frozen=True, slots=True)
class Load:
    """The load during a measurement."""

    a_second: int
    a_batch: int


@dataclass(frozen=True, slots=True)
class Adoption:
    """How soon the job acted on a new assignment."""

    late_batches: int
    """Batches that began after the assignment was published, but followed the old one."""
    seconds: float
    """The time until the job reported the assignment as adopted."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A running job."""

    running: RunningJob
    metrics_port: int

    @property
    def pid(self) -> int:
        """The driver's Python process."""
        return self.running.process.pid

    def planning(self, batches: int) -> list[float]:
        """Return the planning times of this number of batches, in seconds."""
        histogram = Histogram(self.metrics_port, _PLANNING)
        return histogram.wait_for_observations(_WARM_UP_BATCHES + batches)[_WARM_UP_BATCHES:]

    def adopt(self, queues: int) -> Adoption:
        """Change the topic's number of queues, and return how soon the job followed."""
        job = self.running
        epoch = job.epoch
        time.sleep(random.uniform(0, TRIGGER_SECONDS))
        job.client.put_topics([TopicConfig(job.topic, queues, queues)])
        job.wait_until(lambda report: report["adoptedEpoch"] > epoch)
        seconds = time.time() - (published := _find_write_time(job.folder / "assignment.json"))
        late = sum(
            begun > published and followed <= epoch for begun, followed in _list_batches(job.folder)
        )
        return Adoption(late, seconds)


@contextlib.contextmanager
def start(mq: RocketMq, client: Client, topic: str, queues: int) -> Iterator[Pinned]:
    """Run a job that drops its rows, and wait until its executors have their queues."""
    mq.create_topics({topic: queues})
    parts = {"sink": {"format": "noop"}, "transform": {}, "triggerSeconds": TRIGGER_SECONDS}
    with run(mq, client, topic, lambda folder: parts, {}) as running:
        yield running


@contextlib.contextmanager
def run(
    mq: RocketMq, client: Client, topic: str, make_parts: Callable[[Path], dict[str, Any]],
    options: dict[str, str],
) -> Iterator[Pinned]:  # fmt: skip
    """Run a job with these parts of its file, and wait until its executors have their queues."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evenkeel-bench-")))
        claim = ports.claim()
        stack.callback(claim.release)
        parts = {
            **make_parts(folder),
            "metricsPort": claim.port,
            "spark": {**jobs.SPARK, "spark.master": MASTER},
        }
        where = mq.name_server.address
        job = RunningJob(folder, client, topic, where, EXECUTORS, options, parts)
        stack.enter_context(job)
        job.wait_until_adopted(slots=EXECUTORS)
        yield Pinned(job, claim.port)


@contextlib.contextmanager
def send_load(load: Load, mq: RocketMq, topic: str) -> Iterator[None]:
    """Send messages until the context is left."""
    command = [
        sys.executable, "-m", "benchmarks.spark.sender",
        mq.name_server.address, topic, str(load.a_second), str(load.a_batch),
    ]  # fmt: skip
    with peers.start("the sender", command, subprocess.PIPE) as process:
        yield
        if process.popen.poll() is not None:
            raise process.make_failure("has ended")


def _list_batches(folder: Path) -> Iterator[tuple[float, int]]:
    """List when each of the last batches was planned, and with which epoch, from the journal."""
    for place in (folder / "checkpoint" / "flow").glob("[0-9]*"):
        for batch in json.loads(place.read_bytes())["planned"]:
            yield _find_write_time(place), batch["epoch"]


def _find_write_time(place: Path) -> float:
    return place.stat().st_mtime
