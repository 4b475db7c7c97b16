"""A job that runs as a flow: tasks that never end, and a driver that alone commits."""

import os
import signal
from pathlib import Path
from typing import Any

from mq_client import blocking
from mq_client.values import TopicConfig
from sandbox.jobs import RunningJob
from sandbox.rocketmq import RocketMq
from tests.real.numbers import Numbers, arrived

USERS = """
import pyarrow as pa

def transform_batches(batches):
    for batch in batches:
        names = ["broker_name", "queue_id", "queue_offset"]
        columns = {name: batch[name] for name in names}
        yield pa.RecordBatch.from_pydict({**columns, "body": batch["body"].cast(pa.string())})
"""


def flow(folder: Path) -> dict[str, Any]:
    """Fields of the job file of a flow."""
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
        assert job.end_by(signal.SIGTERM) == 0
        assert client.list_member_ids(job.group, topic) == []
    assert arrived(tmp_path / "rows") == dict.fromkeys(range(numbers.sent), 1)
