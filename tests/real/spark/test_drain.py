"""A user drains an executor: another one takes its slot, and no queue moves."""

import json
import signal
from pathlib import Path

import pytest

from contract.exit_codes import DONE
from mq_client import blocking
from sandbox import jars
from sandbox.jobs import RunningJob
from sandbox.rocketmq import RocketMq
from tests.real.numbers import Numbers

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")


def drain(running: RunningJob, *names: str) -> None:
    """Request a drain as an operator does, in the file that the job follows."""
    file = running.folder / "assignment.json"
    part = file.with_suffix(".part")
    part.write_text(json.dumps({**json.loads(file.read_text()), "drain": names}))
    part.replace(file)


def test_a_drained_executor_is_replaced_under_messages_that_all_arrive_once(
    rocketmq: RocketMq, client: blocking.Client, tmp_path: Path, unique_name: str
) -> None:
    """Drain one time while batches run, and one time while there is nothing to read."""
    topic, where = unique_name, rocketmq.name_server.address
    rocketmq.create_topics({topic: 4})
    with Numbers(where, topic) as numbers, RunningJob(tmp_path, client, topic, where) as job:

        def until_replaced(slot: str, before: str) -> str:
            it = job.wait_until(
                lambda it: it["slots"].get(slot, {"executor": before})["executor"] != before
            )
            found: str = it["slots"][slot]["executor"]
            return found

        def until_read(count: int) -> None:
            begun = job.report["batch"]
            job.wait_until(lambda it: it["batch"] >= begun + count)

        job.wait_until_adopted(slots=2)
        until_read(2)
        epoch, others = job.epoch, job.report["slots"]["billing-1"]
        drained = job.report["slots"]["billing-0"]["executor"]
        drain(job, "nobody", drained)
        new = until_replaced("billing-0", drained)
        until_read(3)
        assert job.report["slots"]["billing-0"]["executor"] == new, "the executor is replaced once"
        assert job.report["slots"]["billing-1"] == others

        numbers.stop()
        ends = numbers.find_ends(client)
        job.wait_until(
            lambda _: all(
                client.find_committed(job.group, queue) == end for queue, end in ends.items()
            )
        )
        idle = job.report["batch"]
        drain(job, others["executor"])
        until_replaced("billing-1", others["executor"])
        assert job.report["batch"] == idle

        assert job.epoch == epoch == job.report["adoptedEpoch"], "no queue has moved"
        assert job.report["misplacedTasks"] == 0, "no task was lost with its executor"
        assert job.end_by(signal.SIGTERM) == DONE
    assert sorted(int(row["body"]) for row in job.read_rows()) == list(range(numbers.sent))
