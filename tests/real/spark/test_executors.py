"""
Executors and queues come and go while a pinned job runs: each message is read once.

An executor is killed in the middle of a batch, others join, leave, are frozen and are drained, and
there are more slots than executors. All of this happens to one job, because a job takes long to
start.
"""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.exit_codes import DONE
from mq_client import blocking
from mq_client.values import TopicConfig
from sandbox import jars
from sandbox.jobs import RunningJob
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for
from tests.real.numbers import Numbers
from tests.real.spark.source import SLOW

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

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
"""A transform whose first task that has rows blocks its batch, until its executor is killed."""


class Watched:
    """A job, and what this test waits for."""

    def __init__(self, job: RunningJob) -> None:
        self.job = job

    @property
    def report(self) -> dict[str, Any]:
        return self.job.report

    def find_executor(self, slot: str) -> str:
        return str(self.report["slots"][slot]["executor"])

    def wait_until_replaced(self, slot: str, before: str) -> str:
        """Wait until another executor fills the slot; return its id."""
        self.job.wait_until(
            lambda it: it["slots"].get(slot, {"executor": before})["executor"] != before
        )
        return self.find_executor(slot)

    def wait_for_batches(self, count: int = 2) -> None:
        begun = self.report["batch"]
        self.job.wait_until(lambda it: it["batch"] >= begun + count)

    def drain(self, *names: str) -> None:
        """Request a drain as an operator does, in the file that the job follows."""
        self.change_assignment(drain=names)

    def change_assignment(self, **changes: Any) -> None:
        file = self.job.folder / "assignment.json"
        part = file.with_suffix(".part")
        part.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
        part.replace(file)


def test_executors_and_queues_come_and_go_and_each_message_is_read_once(
    rocketmq: RocketMq, client: blocking.Client, tmp_path: Path, unique_name: str
) -> None:
    topic, where = unique_name, rocketmq.name_server.address
    rocketmq.create_topics({topic: 4})
    mark, file = tmp_path / "mark", tmp_path / "users.py"
    file.write_text(HELD.format(mark=mark))
    parts = {"transform": {"file": str(file)}}
    with RunningJob(tmp_path, client, topic, where, parts=parts) as job:
        it = Watched(job)
        job.wait_until_adopted(slots=2)
        with Numbers(where, topic) as numbers:
            kill_in_a_batch(it, mark)
            epoch = job.epoch
            freeze(it)
            assert job.epoch == epoch, "a replaced executor moves nothing"
            it.wait_for_batches()
            astray = it.report["misplacedTasks"]  # tasks of the executors that were lost

            want_more_than_there_are(it)
            refuse_an_older_assignment(it)
            job.wanted = 2
            job.wait_until_adopted(slots=2)
            it.wait_for_batches()

            epoch = job.epoch
            drain_while_batches_run(it)
            assert job.epoch == epoch == it.report["adoptedEpoch"], "no queue has moved"
            client.put_topics([TopicConfig(topic, 6, 6)])
            job.wait_until(lambda it: it["adoptedEpoch"] > epoch)
            it.wait_for_batches()

        ends = numbers.find_ends(client)
        job.wait_until(
            lambda _: all(
                client.find_committed(job.group, queue) == end for queue, end in ends.items()
            )
        )
        drain_between_batches(it)
        assert it.report["misplacedTasks"] == astray, "only lost executors lose tasks"
        assert it.report["pinned"]
        check_metrics(it, client)
        (member,) = client.list_member_ids(job.group, topic)
        assert member.startswith("evenkeel-billing@")
        assert job.end_by(signal.SIGTERM) == DONE
        assert client.list_member_ids(job.group, topic) == []
    assert sorted(int(row["body"]) for row in job.read_rows()) == list(range(numbers.sent))


def kill_in_a_batch(it: Watched, mark: Path) -> None:
    it.job.wait_until(lambda _: mark.exists() and mark.read_text() != "")
    executors = {it.job.find_executor(slot)[1]: slot for slot in ("billing-0", "billing-1")}
    victim = next(pid for pid in list_ancestors(int(mark.read_text())) if pid in executors)
    killed = it.find_executor(executors[victim])
    os.kill(victim, signal.SIGKILL)
    it.wait_until_replaced(executors[victim], killed)
    it.wait_for_batches()


def freeze(it: Watched) -> None:
    frozen, pid = it.job.find_executor("billing-1")
    os.kill(pid, signal.SIGSTOP)
    it.wait_until_replaced("billing-1", frozen)


def want_more_than_there_are(it: Watched) -> None:
    """Want five slots. There are at most three executors, which read the other queues too."""
    before = it.job.epoch
    it.job.wanted = 5
    it.job.wait_until(
        lambda seen: seen["adoptedEpoch"] == it.job.epoch > before and len(seen["slots"]) == 3
    )
    it.wait_for_batches()


def refuse_an_older_assignment(it: Watched) -> None:
    it.change_assignment(epoch=0)
    it.job.wait_until(lambda seen: "epoch 0 is older than" in (seen["error"] or ""))
    it.wait_for_batches()
    it.job.wanted = 3
    it.job.wait_until_adopted(slots=3)
    assert wait_for(lambda: it.report["error"], lambda error: error is None) is None


def drain_while_batches_run(it: Watched) -> None:
    others, drained = it.find_executor("billing-1"), it.find_executor("billing-0")
    it.drain("nobody", drained)
    new = it.wait_until_replaced("billing-0", drained)
    it.wait_for_batches(3)
    assert it.find_executor("billing-0") == new, "the executor is replaced once"
    assert it.find_executor("billing-1") == others


def drain_between_batches(it: Watched) -> None:
    idle, drained = it.report["batch"], it.find_executor("billing-1")
    it.drain(drained)
    it.wait_until_replaced("billing-1", drained)
    assert it.report["batch"] == idle


def check_metrics(it: Watched, client: blocking.Client) -> None:
    job, shown = it.job, it.job.read_metrics()
    assert shown["epoch_published"] == shown["epoch_adopted"] == job.epoch
    assert shown["slots_filled"] == 2
    assert shown["misplaced_tasks_total"] == it.report["misplacedTasks"]
    failures = re.findall(r"\w+ starts again in \S+ s: (.*)", job.log)
    assert set(failures) <= {SLOW}
    assert shown["failures_total"] == len(failures)
    assert sum(shown[f'rows_total{{slot="billing-{slot}"}}'] for slot in (0, 1)) > 0
    lags = [value for name, value in shown.items() if name.startswith("lag_messages")]
    assert lags == [0] * len(client.find_route(job.topic).readable)


def list_ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
