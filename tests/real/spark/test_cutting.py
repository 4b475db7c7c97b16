"""A broker and an executor freeze while batches run: the others go on, and each row counts once."""

import os
import signal
from pathlib import Path

import pytest

from contract.exit_codes import DONE
from mq_client import blocking
from mq_client.values import MessageQueue
from sandbox import jars
from sandbox.jobs import RunningJob
from sandbox.rocketmq import RocketMq
from tests.real.spark.source import ends_at, send

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

HELD = """
import pathlib, time

def transform(df):
    hold = pathlib.Path("{folder}/hold")
    if hold.exists():
        pathlib.Path("{folder}/is-held").touch()
    while hold.exists():
        time.sleep(0.05)
    return df.selectExpr("CAST(body AS string) AS body")
"""
"""Holds batches, after they are planned and before they read, while a file exists."""
PATIENT = {
    "spark.network.timeout": "900s", "spark.storage.blockManagerHeartbeatTimeoutMs": "800000",
}  # fmt: skip
"""Spark does not notice a frozen executor before the test ends."""


class Held:
    """A job whose batches can be held, and the queues that it reads."""

    def __init__(self, job: RunningJob, client: blocking.Client) -> None:
        self.job = job
        self.client = client
        self.queues = [MessageQueue(job.topic, f"broker-{b}", n) for b in "ab" for n in range(2)]
        self.sent = 0

    def send(self) -> None:
        """Send a message to each queue."""
        for queue in self.queues:
            send(self.client, queue, b"%d" % self.sent)
            self.sent += 1
        ends_at(self.client, self.job.topic, self.sent)

    def hold_a_batch(self) -> None:
        hold, is_held = self.job.folder / "hold", self.job.folder / "is-held"
        is_held.unlink(missing_ok=True)
        hold.touch()
        self.send()
        self.job.wait_until(lambda _: is_held.exists())

    def release(self) -> None:
        (self.job.folder / "hold").unlink()

    def wait_until_committed(self, broker: str = "") -> None:
        mine = [queue for queue in self.queues if queue.broker.endswith(broker)]
        end = self.sent // len(self.queues)
        self.job.wait_until(
            lambda _: all(self.client.find_committed(self.job.group, q) == end for q in mine)
        )


def test_batches_go_on_without_a_frozen_broker_or_executor_and_each_row_counts_once(
    rocketmq: RocketMq, client: blocking.Client, tmp_path: Path, unique_name: str
) -> None:
    rocketmq.create_topics({unique_name: 2})
    file = tmp_path / "users.py"
    file.write_text(HELD.format(folder=tmp_path))
    parts = {"transform": {"file": str(file)}, "spark": PATIENT}
    where, options = rocketmq.name_server.address, {"fetchDeadline": "900s"}
    with RunningJob(tmp_path, client, unique_name, where, options=options, parts=parts) as job:
        it = Held(job, client)
        job.wait_until_adopted(slots=2)
        it.send()
        it.wait_until_committed()

        it.hold_a_batch()
        broker = rocketmq.brokers["broker-b"].pid
        os.kill(broker, signal.SIGSTOP)
        try:
            it.release()
            it.wait_until_committed("broker-a")
            assert "it leaves out broker broker-b" in job.log
            assert job.read_metrics()['lane_left_out{broker="broker-b",lane="0"}'] == 1
        finally:
            os.kill(broker, signal.SIGCONT)
        it.wait_until_committed()

        it.hold_a_batch()
        slots = job.report["slots"]
        frozen, executor = job.find_executor("billing-1")
        os.kill(executor, signal.SIGSTOP)
        it.release()
        it.wait_until_committed()
        assert f"executor {frozen} does not answer" in job.log
        os.kill(executor, signal.SIGCONT)
        it.send()
        it.wait_until_committed()
        assert job.report["slots"] == slots, "the executor goes on"
        shown = job.read_metrics()
        assert shown['cancelled_batches_total{silent="broker"}'] >= 1
        assert shown['cancelled_batches_total{silent="executor"}'] >= 1
        assert shown['lane_batch_seconds{lane="0"}'] == 0
        assert not [each for each in shown if each.startswith("lane_left_out")]
        assert job.end_by(signal.SIGTERM) == DONE
    assert sorted(int(row["body"]) for row in job.read_rows()) == list(range(it.sent))
