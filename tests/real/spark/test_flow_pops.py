"""A job of a group that is balanced by message: executors pop, and acknowledge after commits."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.exit_codes import DONE
from mq_client.blocking import Client
from mq_client.choosers import RoundRobin
from mq_client.messages import Message
from mq_client.values import GroupConfig
from sandbox import jars
from sandbox.jobs import PATIENCE_SECONDS, RunningJob
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for
from tests.real.numbers import Numbers, arrived

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

USERS = """
import pyarrow as pa

def transform_batches(batches):
    for batch in batches:
        bodies = batch["body"].cast(pa.string())
        if "-7" in bodies.to_pylist():
            raise ValueError("a -7")
        yield pa.RecordBatch.from_pydict({"body": bodies})
"""
CALM = 200
"""Messages before the first fault. Their numbers are negative."""


@pytest.fixture
def client(popping_mq: RocketMq, unique_name: str) -> Iterator[Client]:
    with Client(popping_mq.name_server.address) as found:
        found.put_group(GroupConfig(f"group-{unique_name}"))
        yield found


def by_message(folder: Path, topic: str) -> dict[str, Any]:
    """Return the fields that make a job file one of a group that is balanced by message."""
    file = folder / "users.py"
    file.write_text(USERS)
    terms = {
        "topics": [topic], "invisibleSeconds": 10.0, "batch": 32, "mostAttempts": 2,
        "backoffSeconds": 1.0,
    }  # fmt: skip
    return {"messages": terms, "transform": {"file": str(file)}}


def test_executors_pop_and_nothing_is_lost_whatever_comes_and_goes(
    popping_mq: RocketMq, client: Client, tmp_path: Path, unique_name: str
) -> None:
    """Three executors share one queue. In calm times, no message comes twice."""
    topic, where = unique_name, popping_mq.name_server.address
    popping_mq.create_topics({topic: 1})
    chooser, rows = RoundRobin(), tmp_path / "rows"
    parts = by_message(tmp_path, topic)
    with RunningJob(tmp_path, client, topic, where, wanted=3, parts=parts) as job:

        def read_on() -> None:
            begun = job.report["batch"]
            job.wait_until(lambda it: it["batch"] >= begun + 2)

        def list_busy() -> list[str]:
            """List the slots that have written rows."""
            found = job.read_metrics()
            return [name for name, rows in found.items() if name.startswith("rows_total{") and rows]

        def until_replaced(slot: str, before: str) -> None:
            job.wait_until(
                lambda it: it["slots"].get(slot, {"executor": before})["executor"] != before
            )
            read_on()

        job.wait_until_adopted(slots=3)
        assert job.report["engine"] == "Flow, because the group has balance Messages"
        calm = dict.fromkeys(range(-CALM - 10, -10), 1)
        for number in calm:
            client.send([Message(topic, b"%d" % number)], chooser)
        found = wait_for(lambda: arrived(rows), lambda it: len(it) == CALM, PATIENCE_SECONDS)
        assert found == calm
        client.send([Message(topic, b"-7")], chooser)
        with Numbers(where, topic) as numbers:
            assert wait_for(list_busy, lambda slots: len(slots) == 3, PATIENCE_SECONDS)
            killed, pid = job.find_executor("billing-0")
            os.kill(pid, signal.SIGKILL)
            until_replaced("billing-0", killed)
            frozen, pid = job.find_executor("billing-1")
            os.kill(pid, signal.SIGSTOP)
            until_replaced("billing-1", frozen)
            job.end_by(signal.SIGKILL)
            job.start()
            job.wait_until_adopted(slots=3)
            read_on()
            numbers.stop()
            wanted = {*calm, *range(numbers.sent)} - numbers.unsure
            found = wait_for(
                lambda: arrived(rows), lambda it: wanted <= it.keys(), PATIENCE_SECONDS
            )
            assert wanted <= found.keys()
        assert -7 not in found
        assert wait_for(lambda: client.count_dead_letters(job.group), bool) == 1
        assert job.end_by(signal.SIGTERM) == DONE
