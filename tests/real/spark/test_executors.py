"""Executors that die, and slots without an executor: what happens to their queues."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.exit_codes import DONE
from mq_client import blocking
from mq_client.messages import Message
from mq_client.operations.sending import RoundRobin
from sandbox import jars
from sandbox.jobs import RunningJob
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")


class Numbers:
    """Sends numbers, and knows what the job must have written."""

    def __init__(self, client: blocking.Client, running: RunningJob) -> None:
        self._client = client
        self._running = running
        self._chooser = RoundRobin()
        self._sent = 0

    def send(self, count: int) -> None:
        for number in range(self._sent, self._sent + count):
            self._client.send([Message(self._running.topic, b"%d" % number)], self._chooser)
        self._sent += count

    def until_all_are_read(self) -> None:
        """Wait until all numbers are read, and check that each was committed once."""
        queues = self._client.find_route(self._running.topic).readable
        group = self._running.group

        def total(_: object) -> bool:
            return (
                sum(self._client.find_committed(group, each) or 0 for each in queues) == self._sent
            )

        self._running.wait_until(total)
        found = sorted(int(row["body"]) for row in self._running.read_rows())
        assert found == list(range(self._sent))


HELD = """
import os, pathlib, threading

MARK = pathlib.Path("{mark}")

def hold(batches):
    if not MARK.exists():
        MARK.write_text(str(os.getppid()))
        threading.Event().wait()
    yield from batches

def transform(df):
    rows = df.selectExpr("broker_name", "queue_id", "queue_offset", "CAST(body AS string) AS body")
    return rows.mapInArrow(hold, rows.schema)
"""


def test_whoever_dies_or_is_missing_each_message_is_read_once_and_no_epoch_goes_back(
    tmp_path: Path, client: blocking.Client, rocketmq: RocketMq, topic: str
) -> None:
    """
    An executor is killed in the middle of a batch; then there are slots that no executor fills.

    The first task that has rows blocks its batch until its executor is killed. Later there are five
    slots, and at most three executors. These also read the queues of the empty slots. All of this
    happens to one job, because a job takes long to start.
    """
    mark, file = tmp_path / "mark", tmp_path / "users.py"
    file.write_text(HELD.format(mark=mark))
    parts = {"transform": {"file": str(file)}}
    where = rocketmq.name_server.address
    with RunningJob(tmp_path, client, topic, where, parts=parts) as running:
        numbers = Numbers(client, running)
        running.wait_until_adopted(slots=2)
        numbers.send(40)
        running.wait_until(lambda _: mark.exists() and mark.read_text() != "")
        executors = {running.find_executor(slot)[1]: slot for slot in ("billing-0", "billing-1")}
        worker = int(mark.read_text())
        victim = next(pid for pid in ancestors(worker) if pid in executors)
        os.kill(victim, signal.SIGKILL)
        numbers.until_all_are_read()

        epoch = running.epoch
        astray = running.report["misplacedTasks"]  # tasks of the executor that was killed
        running.wanted = 5
        running.wait_until(
            lambda it: it["adoptedEpoch"] == running.epoch > epoch and len(it["slots"]) == 3
        )
        numbers.send(40)
        numbers.until_all_are_read()
        assert running.report["misplacedTasks"] == astray

        file = tmp_path / "assignment.json"
        older = {**json.loads(file.read_text()), "epoch": 0}
        replace(file, json.dumps(older))
        running.wait_until(lambda it: "epoch 0 is older than" in (it["error"] or ""))
        numbers.send(40)
        numbers.until_all_are_read()
        running.wanted = 3
        running.wait_until_adopted(slots=3)
        assert wait_for(lambda: running.report["error"], lambda error: error is None) is None
        assert running.end_by(signal.SIGTERM) == DONE


def ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def replace(file: Path, text: str) -> None:
    part = file.with_suffix(".part")
    part.write_text(text)
    part.replace(file)
