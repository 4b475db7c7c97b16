"""Our side: a pinned Spark job with executors of its own, and a sink of files."""

import contextlib
import os
import signal
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.handover import scene
from benchmarks.handover.effects import Consumed
from mq_client.blocking import Client
from mq_client.values import Queue
from sandbox.jobs import RunningJob
from spark_jobs.pipeline.assignments import InFiles

NAME = "ours"
_KILLED, _FROZEN = "billing-0", "billing-1"
_STEADY_BATCHES = 2
"""So many batches after an event, all is as it should be."""


class Ours:
    """A job at work."""

    def __init__(self, job: RunningJob, client: Client) -> None:
        """Take what `started` has started."""
        self._job = job
        self._client = client
        self._frozen = 0

    def begin(self) -> None:
        """Wait for the first executors."""
        self._share(scene.CONSUMERS)

    def join(self) -> None:
        """Want one more executor."""
        self._share(scene.CONSUMERS + 1)

    def leave(self) -> None:
        """Want one less."""
        self._share(scene.CONSUMERS)

    def kill(self) -> None:
        """Kill an executor; Spark replaces it."""
        name, pid = self._job.executor(_KILLED)
        os.kill(pid, signal.SIGKILL)
        self._await_another(_KILLED, name)

    def freeze(self) -> None:
        """Stop an executor; Spark replaces it when it finds out."""
        name, self._frozen = self._job.executor(_FROZEN)
        os.kill(self._frozen, signal.SIGSTOP)
        self._await_another(_FROZEN, name)

    def thaw(self) -> None:
        """Let it go on; Spark may have ended it by now."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._frozen, signal.SIGCONT)
        self._await_batches()

    def add_queues(self) -> None:
        """Have more queues."""
        epoch = self._job.epoch
        scene.add_queues(self._client, self._job.topic)
        self._job.until(lambda it: it["adoptedEpoch"] > epoch)
        self._await_batches()

    def finish(self, sent: int) -> None:
        """Consume the rest, and end the job."""
        del sent  # the brokers know as well
        ends = {
            queue: offsets.max
            for queue, offsets in self._client.topic_offsets(self._job.topic).items()
        }
        self._job.until(
            lambda _: all(
                self._client.committed(self._job.group, queue) == end for queue, end in ends.items()
            )
        )
        self._job.end_by(signal.SIGTERM)

    def owners(self) -> Mapping[Queue, str]:
        """Read the assignment that is published."""
        return InFiles(self._job.folder / "assignment.json", "").latest().owners

    def consumed(self) -> Iterator[Consumed]:
        """Read the sink: rows are consumed when their batch is complete."""
        for end, rows in self._job.batches():
            numbers: dict[Queue, list[int]] = defaultdict(list)
            for row in rows:
                queue = Queue(self._job.topic, row["broker_name"], row["queue_id"])
                numbers[queue].append(int(row["body"]))
            for queue, found in numbers.items():
                yield Consumed(end, queue, found)

    def _share(self, executors: int) -> None:
        self._job.wanted = executors
        self._job.until_adopted(executors)
        self._await_batches()

    def _await_another(self, slot: str, before: str) -> None:
        nobody = {"executor": before}
        self._job.until(lambda it: it["slots"].get(slot, nobody)["executor"] != before)
        self._await_batches()

    def _await_batches(self) -> None:
        begun = self._job.report["batch"]
        self._job.until(lambda it: it["batch"] >= begun + _STEADY_BATCHES)


@contextlib.contextmanager
def started(name_server: str, client: Client, topic: str) -> Iterator[Ours]:
    """Run a job until left."""
    with (
        tempfile.TemporaryDirectory(prefix="evenkeel-handover-") as folder,
        RunningJob(Path(folder), client, topic, name_server) as job,
    ):
        yield Ours(job, client)
