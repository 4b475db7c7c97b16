"""A job that runs as a flow: its tasks never end, and only its driver commits."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from contract.exit_codes import DONE, PERMANENT
from mq_client import blocking
from mq_client.values import MessageQueue, TopicConfig
from sandbox import jars, sinks
from sandbox.jobs import PATIENCE_SECONDS, SPARK, RunningJob
from sandbox.rocketmq import RocketMq
from sandbox.rocketmq import run as run_rocketmq
from tests.real.numbers import Numbers, arrived
from tests.real.spark.forgetting import SMALL_FILES, forget_files
from tests.real.spark.source import delete, ends_at, send

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

USERS = """
import pyarrow as pa

def transform_batches(batches):
    for batch in batches:
        names = ["broker_name", "queue_id", "queue_offset"]
        columns = {name: batch[name] for name in names}
        yield pa.RecordBatch.from_pydict({**columns, "body": batch["body"].cast(pa.string())})
"""


AS_CLASS = """
function = transform_batches

class transform_batches:
    def __init__(self):
        self.function = function

    def __call__(self, batches):
        return self.function(batches)
"""


def flow(folder: Path) -> dict[str, Any]:
    """Return the fields that make a job file one of a flow."""
    file = folder / "users.py"
    file.write_text(USERS)
    return {"engine": "Flow", "transform": {"file": str(file)}}


def test_a_flow_loses_nothing_and_doubles_nothing_whatever_comes_and_goes(
    rocketmq: RocketMq, client: blocking.Client, tmp_path: Path, unique_name: str
) -> None:
    topic = unique_name
    rocketmq.create_topics({topic: 4})
    where = rocketmq.name_server.address
    with (
        Numbers(where, topic) as numbers,
        RunningJob(tmp_path, client, topic, where, parts=flow(tmp_path)) as job,
    ):

        def read_on() -> None:
            """Wait until more is committed."""
            begun = job.report["batch"]
            job.wait_until(lambda it: it["batch"] >= begun + 2)

        def until_replaced(slot: str, before: str) -> None:
            job.wait_until(
                lambda it: it["slots"].get(slot, {"executor": before})["executor"] != before
            )
            read_on()

        job.wait_until_adopted(slots=2)
        read_on()
        job.wanted = 3
        job.wait_until_adopted(slots=3)
        read_on()
        job.wanted = 2
        job.wait_until_adopted(slots=2)
        read_on()
        epoch = job.epoch

        killed, pid = job.find_executor("billing-0")
        os.kill(pid, signal.SIGKILL)
        until_replaced("billing-0", killed)
        frozen, pid = job.find_executor("billing-1")
        os.kill(pid, signal.SIGSTOP)
        until_replaced("billing-1", frozen)
        assert job.epoch == epoch, "a replaced executor moves nothing"

        job.end_by(signal.SIGKILL)
        job.start()
        job.wait_until_adopted(slots=2)
        read_on()
        client.put_topics([TopicConfig(topic, 6, 6)])
        job.wait_until(lambda it: it["adoptedEpoch"] > epoch)

        numbers.stop()
        ends = numbers.find_ends(client)
        job.wait_until(
            lambda _: all(
                client.find_committed(job.group, queue) == end for queue, end in ends.items()
            )
        )
        assert job.read_metrics()["slots_filled"] == 2
        assert job.end_by(signal.SIGTERM) == DONE
        assert client.list_member_ids(job.group, topic) == []
    assert arrived(tmp_path / "rows") == dict.fromkeys(range(numbers.sent), 1)


def list_errors(folder: Path) -> list[str]:
    """List the errors of all dead letters."""
    files = sinks.list_finished(folder)
    return sorted(row["_error"] for file in files for row in sinks.read_batch(file)[1])


REFUSING = USERS.replace(
    "        names =",
    """        bodies = batch["body"].to_pylist()
        if b"7" in bodies:
            raise ValueError("a 7")
        names =""",
).replace(
    "**columns,", '**columns, "_error": ["odd" if each == b"41" else None for each in bodies],'
)


def test_a_message_that_the_function_refuses_holds_up_its_own_queue_or_is_a_dead_letter(
    rocketmq: RocketMq, client: blocking.Client, tmp_path: Path, unique_name: str
) -> None:
    topic = unique_name
    rocketmq.create_topics({topic: 2})
    where = rocketmq.name_server.address
    held, *others = client.find_route(topic).readable
    parts = flow(tmp_path)
    (tmp_path / "users.py").write_text(REFUSING)
    for number in range(40):
        send(client, held if number in (3, 7, 8) else others[number % 3], b"%d" % number)

    def until_arrived(numbers: set[int]) -> None:
        job.wait_until(lambda _: arrived(tmp_path / "rows") == dict.fromkeys(numbers, 1))

    trouble = f"{held} offset 1: the handler failed 3 times, the last time: ValueError: a 7"
    with RunningJob(tmp_path, client, topic, where, parts=parts) as job:
        until_arrived(set(range(40)) - {7, 8})
        job.wait_until(lambda it: trouble in (it["error"] or ""))
        send(client, others[0], b"40")
        until_arrived(set(range(41)) - {7, 8})
        assert job.end_by(signal.SIGTERM) == DONE
        job.parts["deadLetter"] = {"format": "json", "path": str(tmp_path / "dead")}
        job.start()
        send(client, others[0], b"41")
        until_arrived(set(range(41)) - {7})
        job.wait_until(lambda _: list_errors(tmp_path / "dead") == sorted(["odd", trouble]))
        assert job.end_by(signal.SIGTERM) == DONE
    assert arrived(tmp_path / "rows") == dict.fromkeys(set(range(41)) - {7}, 1)
    assert list_errors(tmp_path / "dead") == sorted(["odd", trouble])


def test_lost_messages_end_the_job_until_the_user_skips_them(
    tmp_path: Path, unique_name: str
) -> None:
    with (
        run_rocketmq(brokers=1, properties=SMALL_FILES) as mq,
        blocking.Client(mq.name_server.address) as client,
    ):
        mq.create_topics({unique_name: 1})
        (queue,) = client.find_route(unique_name).readable
        where = mq.name_server.address

        def run() -> RunningJob:
            return RunningJob(tmp_path, client, unique_name, where, parts=flow(tmp_path))

        send(client, queue, b"0")
        with run() as job:
            job.wait_until(lambda _: client.find_committed(job.group, queue) == 1)
            assert job.end_by(signal.SIGTERM) == DONE
        for _ in range(30):
            send(client, queue, b"1" * 8000)
        ends_at(client, unique_name, 31)
        forget_files(mq.brokers["broker-a"])
        assert client.find_min_offset(queue) > 1
        with run() as job:
            assert job.process.wait(PATIENCE_SECONDS) == PERMANENT, job.log
            assert str(queue) in str(job.report["error"])
            assert client.find_committed(job.group, queue) == 1
            job.parts["skip"] = "monday"
            job.start()
            send(client, queue, b"last")
            end = client.find_max_offset(queue)
            job.wait_until(lambda _: client.find_committed(job.group, queue) == end)
            skipped = job.report["skipped"]
            assert job.end_by(signal.SIGTERM) == DONE
        found = {row["queue_offset"] for row in job.read_rows()}
        lost = set(range(end)) - found
        assert (skipped["value"], skipped["messages"]) == ("monday", len(lost))
        assert lost == set(range(1, len(lost) + 1)), "only the first ones are missing"


def test_a_queue_that_was_made_anew_ends_the_job_or_is_read_from_its_end_on(
    rocketmq: RocketMq, client: blocking.Client, tmp_path: Path, unique_name: str
) -> None:
    rocketmq.create_topics({unique_name: 1}, brokers=["broker-a"])
    where = rocketmq.name_server.address
    queue = MessageQueue(unique_name, "broker-a", 0)
    send(client, queue, b"0", b"1", b"2")
    with RunningJob(tmp_path, client, unique_name, where, wanted=1, parts=flow(tmp_path)) as job:
        job.wait_until(lambda _: arrived(tmp_path / "rows") == dict.fromkeys(range(3), 1))
        assert job.end_by(signal.SIGTERM) == DONE
        delete(rocketmq, unique_name)
        rocketmq.create_topics({unique_name: 1}, brokers=["broker-a"])
        send(client, queue, b"skipped")
        ends_at(client, unique_name, 1)
        job.start()
        assert job.process.wait(PATIENCE_SECONDS) == PERMANENT, job.log
        assert f"{queue} was read up to 3, but ends at 1" in str(job.report["error"])
        job.options["failOnDataLoss"] = "false"
        job.start()
        job.wait_until(lambda it: it.get("pinned", False) and it["slots"])
        send(client, queue, b"3")
        job.wait_until(lambda _: arrived(tmp_path / "rows") == dict.fromkeys(range(4), 1))
        assert job.end_by(signal.SIGTERM) == DONE


def test_a_job_that_a_flow_cannot_run_says_what_to_change(
    rocketmq: RocketMq, client: blocking.Client, tmp_path: Path, topic: str
) -> None:
    parts = flow(tmp_path) | {"transform": {"sql": "SELECT 1 FROM messages"}}
    where = rocketmq.name_server.address
    with RunningJob(tmp_path, client, topic, where, parts=parts) as job:
        assert job.process.wait(PATIENCE_SECONDS) == PERMANENT
        assert job.report["error"] == (
            "engine Flow cannot do this yet: transform.sql. Set engine to Batch, or leave it out"
        )


def test_a_flow_continues_the_checkpoint_of_batches_and_batches_continue_its_own(
    rocketmq: RocketMq, client: blocking.Client, tmp_path: Path, topic: str
) -> None:
    where = rocketmq.name_server.address
    alone = {"spark": {**SPARK, "spark.master": "local-cluster[1,1,1024]"}}
    with (
        Numbers(where, topic) as numbers,
        RunningJob(tmp_path, client, topic, where, wanted=1, parts=alone) as job,
    ):
        batch = job.wait_until(lambda it: it.get("batch", -1) >= 2)["batch"]
        job.end_by(signal.SIGKILL)
        # As if the driver had died after writing its last rows, and before the commit.
        entries = tmp_path / "checkpoint/flow"
        newest = entries / str(max(int(each.name) for each in entries.iterdir()))
        if not json.loads(newest.read_bytes())["planned"]:
            newest.unlink()
        job.parts = {**flow(tmp_path), **alone}
        (tmp_path / "users.py").write_text(USERS + AS_CLASS)
        job.start()
        batch = job.wait_until(lambda it: it.get("batch", -1) > batch + 2)["batch"]
        job.end_by(signal.SIGKILL)
        job.parts = alone
        job.start()
        job.wait_until(lambda it: it.get("batch", -1) > batch + 2)
        numbers.stop()
        ends = numbers.find_ends(client)
        job.wait_until(
            lambda _: all(client.find_committed(job.group, q) == end for q, end in ends.items())
        )
        assert job.end_by(signal.SIGTERM) == DONE
    assert arrived(tmp_path / "rows") == dict.fromkeys(range(numbers.sent), 1)
    assert len(list((tmp_path / "rows").iterdir())) == 1, "the folders continue"
    left = {each.name for each in (tmp_path / "checkpoint").iterdir()}
    assert left == {"flow"}, "there is one journal"
