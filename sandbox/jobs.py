"""
Runs a pinned job in a separate process, with real executors and without an operator.

In place of the operator, a thread writes the assignment that `lb_core` plans for the wanted slots
and the queues.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec

from contract import job_file, names
from contract.assignment import AssignmentFile, QueueIds, Share
from contract.job_file import JobFile, JobSink, JobTransform
from lb_core import plan
from lb_core.assignment import Assignment
from lb_core.model import Member, QueueRange
from mq_client import blocking
from mq_client.errors import TopicUnknownError
from sandbox import archive, executors, ports, process, sinks
from sandbox.waiting import wait_for

ROOT = Path(__file__).parents[1]
MOST_EXECUTORS = 3
METRICS = "evenkeel_job_"
PATIENCE_SECONDS = 240.0
_LIBC = ctypes.CDLL(None)
_SET_SIGNAL_AT_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
SPARK = {
    "spark.master": f"local-cluster[{MOST_EXECUTORS},1,1024]",
    "spark.executor.memory": "640m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.sql.shuffle.partitions": "2",
}
SQL = "SELECT broker_name, queue_id, queue_offset, CAST(body AS string) AS body FROM messages"


class JobError(process.SandboxError):
    """The job has ended, or did not reach an expected state in time."""


@dataclass
class RunningJob:
    """A job that runs until the block ends."""

    folder: Path
    client: blocking.Client
    topic: str
    name_server: str
    wanted: int = 2
    options: dict[str, str] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    """Other fields of the job file, in the form that they have in JSON."""

    def __post_init__(self) -> None:
        """Start nothing yet."""
        self.epoch = 0
        self._last: plan.Plan | None = None
        self._metrics = ports.claim()
        self._done = threading.Event()
        self._planner = threading.Thread(target=self._keep_planning)

    def __enter__(self) -> Self:
        """Start the driver and the planner."""
        self.start()
        self._planner.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the planner and the driver."""
        self._done.set()
        self._planner.join()
        self.end_by(signal.SIGKILL)
        self._metrics.release()

    @property
    def group(self) -> str:
        """The consumer group."""
        return f"group-{self.topic}"

    def start(self) -> None:
        """Delete the report of an earlier driver, and start a driver."""
        (self.folder / names.REPORT).unlink(missing_ok=True)
        file = self.folder / names.JOB
        file.write_text(job_file.encode(self._job()))
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_SCALA_VERSION": "2.13",
            **archive.make_environment(),
        }
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "spark_jobs.pipeline", str(file)],
                env=environment, stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
                preexec_fn=_die_with_parent,
            )  # fmt: skip

    def end_by(self, number: int) -> int:
        """Send a signal to the driver, wait for its end, and kill the processes left behind."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        for pid in executors.list_session(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return code

    @property
    def report(self) -> dict[str, Any]:
        """The last report of the driver."""
        try:
            found: dict[str, Any] = json.loads((self.folder / names.REPORT).read_text())
        except FileNotFoundError:
            return {"adoptedEpoch": -1, "slots": {}, "error": None}
        return found

    def read_metrics(self) -> dict[str, float]:
        """Scrape the metrics; return the values by name, without the common prefix."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        pairs = [line.rpartition(" ") for line in lines if line.startswith(METRICS)]
        return {name.removeprefix(METRICS): float(value) for name, _, value in pairs}

    @property
    def log(self) -> str:
        """The driver's log."""
        return (self.folder / "log").read_text(errors="replace")

    def wait_until(self, is_right: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until `is_right` accepts the report."""
        has_ended = self.process.poll
        seen = wait_for(
            lambda: self.report,
            lambda it: is_right(it) or has_ended() is not None,
            PATIENCE_SECONDS,
        )
        if not is_right(seen):
            raise JobError(f"the job reports {seen}; its log ends with\n{self.log[-4000:]}")
        return seen

    def wait_until_adopted(self, slots: int) -> dict[str, Any]:
        """Wait until an assignment to this number of slots is adopted, and all slots are filled."""
        return self.wait_until(
            lambda it: (
                len(it["slots"]) == slots
                and it["adoptedEpoch"] == self.epoch
                and self._last is not None
                and len(self._last.assignment) == slots
            )
        )

    def find_executor(self, slot: str) -> tuple[str, int]:
        """Find the id and the process of the executor that fills a slot."""
        name = self.report["slots"][slot]["executor"]
        pid = executors.find(self.process.pid, name)
        if pid is None:
            raise JobError(f"executor {name} has no process")
        return name, pid

    def read_rows(self) -> list[dict[str, Any]]:
        """Read the rows of the sink."""
        batches = map(sinks.read_batch, sinks.list_finished(self.folder / "rows"))
        return [row for _, rows in batches for row in rows]

    def _job(self) -> JobFile:
        job = JobFile(
            name="billing",
            source={
                "nameServers": self.name_server,
                "topics": self.topic,
                "group": self.group,
                "startFrom": "earliest",
                **self.options,
            },
            assignments=str(self.folder / names.ASSIGNMENT),
            report=str(self.folder / names.REPORT),
            checkpoint=str(self.folder / "checkpoint"),
            sink=JobSink(format="json", path=str(self.folder / "rows")),
            transform=JobTransform(sql=SQL),
            executors=self.wanted,
            metrics_port=self._metrics.port,
        )
        spark = {"spark": SPARK | self.parts.get("spark", {})}
        return msgspec.convert(msgspec.to_builtins(job) | self.parts | spark, JobFile)

    def _keep_planning(self) -> None:
        while not self._done.wait(0.2):
            members = [Member(f"billing-{number}") for number in range(self.wanted)]
            try:
                queues = self.client.find_route(self.topic, max_age=1.0).readable
            except TopicUnknownError:  # a test is recreating the topic: the plan stays
                continue
            ranges = [QueueRange(each.topic, each.broker, each.id, each.id + 1) for each in queues]
            if "messages" in self.parts:  # executors that pop own no queues
                ranges = []
            found = plan.plan(self._last, ranges, members)
            if self._last is None or dict(found.assignment) != dict(self._last.assignment):
                part = self.folder / f".{names.ASSIGNMENT}"  # readers must not see half a file
                part.write_bytes(
                    msgspec.json.encode(_make_assignment(self.epoch + 1, found.assignment))
                )
                part.replace(self.folder / names.ASSIGNMENT)
                self._last = found
                self.epoch += 1


def _die_with_parent() -> None:
    """Make the kernel kill the driver when the tests end. Its JVM and executors then end too."""
    _LIBC.prctl(_SET_SIGNAL_AT_PARENTS_DEATH, signal.SIGKILL)


def _make_assignment(epoch: int, given: Assignment) -> AssignmentFile:
    """Convert an assignment to the form that a job reads."""
    shares = [
        Share(slot, [QueueIds(*queues, ids) for queues, ids in given.list_ids(slot).items()])
        for slot in given
    ]
    return AssignmentFile(epoch, shares)
