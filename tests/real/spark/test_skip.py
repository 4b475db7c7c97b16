"""A broker deletes messages that a job has not read: the job stops until a skip is requested."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.exit_codes import DONE, PERMANENT
from mq_client import blocking
from mq_client.values import MessageQueue
from sandbox import jars, rocketmq
from sandbox.jobs import PATIENCE_SECONDS, SPARK, RunningJob
from sandbox.rocketmq import RocketMq
from tests.real.spark.forgetting import SMALL_FILES, forget_files
from tests.real.spark.source import ends_at, send

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

SQL = "SELECT queue_offset FROM messages"
HELD = """
import pathlib, threading

def write(df, query, batch):
    mark = pathlib.Path("{mark}")
    if not mark.exists():
        mark.touch()
        threading.Event().wait()
    df.write.mode("overwrite").json(f"{rows}/query={{query}}/batch={{batch}}")
"""
"""A sink whose first call never returns and reads no row."""


class Unplanned(RunningJob):
    """A job without an assignment. Its broker is down at times, so any executor reads any queue."""

    def _keep_planning(self) -> None:
        pass


class Lossy:
    """A queue whose broker deletes messages, and a job that reads it."""

    def __init__(self, mq: RocketMq, client: blocking.Client, topic: str, folder: Path) -> None:
        """Start nothing yet."""
        mq.create_topics({topic: 1})
        self.broker = mq.brokers["broker-a"]
        self.client = client
        self.queue = MessageQueue(topic, "broker-a", 0)
        self.folder = folder
        parts: dict[str, Any] = {
            "mode": "Scheduled",
            "transform": {"sql": SQL},
            "spark": {**SPARK, "spark.master": "local[2]"},
        }
        where = mq.name_server.address
        self.job = Unplanned(folder, client, topic, where, parts=parts)
        self._sent = 0

    def send(self, count: int, size: int = 8000) -> int:
        """Send messages; return how many were sent in total."""
        for _ in range(count):
            send(self.client, self.queue, bytes(size))
        self._sent += count
        ends_at(self.client, self.queue.topic, self._sent)
        return self._sent

    def forget(self, files: int = 2) -> int:
        """Let the broker delete the oldest messages; return the first offset that is left."""
        forget_files(self.broker, files)
        return self.client.find_min_offset(self.queue)

    def run(self) -> dict[str, Any]:
        """Let the job read all messages and end; return its report."""
        self.job.start()
        assert self.job.process.wait(PATIENCE_SECONDS) == DONE, self.job.log
        assert self.client.find_committed(self.job.group, self.queue) == self._sent
        return self.job.report

    def stop(self) -> str:
        """Let the job run until it fails; return its error."""
        self.job.start()
        assert self.job.process.wait(PATIENCE_SECONDS) == PERMANENT, self.job.log
        return str(self.job.report["error"])

    def offsets(self) -> list[int]:
        """List the offsets in the sink."""
        parts = (self.folder / "rows").rglob("part-*.json")
        lines = [line for part in parts for line in part.read_text().splitlines()]
        return sorted(json.loads(line)["queue_offset"] for line in lines)


@pytest.fixture
def lossy(unique_name: str, tmp_path: Path) -> Iterator[Lossy]:
    with (
        rocketmq.run(brokers=1, properties=SMALL_FILES) as mq,
        blocking.Client(mq.name_server.address) as client,
    ):
        found = Lossy(mq, client, unique_name, tmp_path)
        found.send(2)
        with found.job:
            assert found.job.process.wait(PATIENCE_SECONDS) == DONE, found.job.log
            yield found


def test_a_job_passes_over_what_is_gone_once_for_each_time_it_is_asked(lossy: Lossy) -> None:
    """
    Messages are deleted before a batch is planned, and then while a planned batch waits.

    The driver of that batch is killed before it has read any row.
    """
    job, queue = lossy.job, lossy.queue
    assert job.report["skipped"] is None
    read, end = 2, lossy.send(40)
    first = lossy.forget()
    assert read < first < end

    said = lossy.stop()
    assert f"{queue}: offsets {read} to {first - 1} are deleted" in said
    assert said.endswith("evenkeel.dev/skip")
    job.parts["skip"] = "monday"
    what = f"{queue}: {first - read} messages, offsets {read} to {first - 1}"
    assert lossy.run()["skipped"] == {"value": "monday", "messages": first - read, "lost": what}
    assert f"skipped, as requested by skip 'monday': {what}" in job.log
    assert lossy.offsets() == [*range(read), *range(first, end)]

    mark, sink = lossy.folder / "mark", lossy.folder / "sink.py"
    sink.write_text(HELD.format(mark=mark, rows=lossy.folder / "rows"))
    job.parts["sink"] = {"file": str(sink)}
    planned = lossy.send(3)
    job.start()
    job.wait_until(lambda _: mark.exists())
    job.end_by(signal.SIGKILL)
    last = lossy.send(40)
    later = lossy.forget(files=5)
    assert planned < later < last

    assert f"offsets {end} to {later - 1} are deleted" in lossy.stop()
    job.parts["skip"] = "tuesday"
    lost = f"{queue}: {later - end} messages, offsets {end} to {later - 1}"
    assert lossy.run()["skipped"]["lost"] == lost
    assert lossy.offsets() == [*range(read), *range(first, end), *range(later, last)]
