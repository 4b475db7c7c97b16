"""Executors and queues come and go while a pinned job runs: nothing is lost or duplicated."""

import os
import re
import signal
import time
from pathlib import Path

from mq_client import blocking
from mq_client.values import TopicConfig
from sandbox.jobs import RunningJob
from sandbox.rocketmq import RocketMq
from tests.real.numbers import Numbers

SLOW = "Python worker failed to connect back."
"""Spark gives a new Python process 10 s, which a busy machine may exceed."""


def test_executors_and_queues_come_and_go_and_every_message_arrives_once(
    rocketmq: RocketMq, client: blocking.Client, tmp_path: Path, unique_name: str
) -> None:
    topic = unique_name
    rocketmq.create_topics({topic: 4})
    where = rocketmq.name_server.address
    with Numbers(where, topic) as numbers, RunningJob(tmp_path, client, topic, where) as job:

        def until_replaced(slot: str, before: str) -> None:
            job.wait_until(
                lambda it: it["slots"].get(slot, {"executor": before})["executor"] != before
            )

        marks: list[tuple[str, float]] = []

        def mark(event: str) -> None:
            """Wait until batches end again after the last event; then note the time."""
            begun = job.report["batch"]
            job.wait_until(lambda it: it["batch"] >= begun + 2)
            marks.append((event, time.time()))

        job.wait_until_adopted(slots=2)
        mark("one joins")
        job.wanted = 3
        job.wait_until_adopted(slots=3)
        mark("one leaves")
        job.wanted = 2
        job.wait_until_adopted(slots=2)

        assert job.report["misplacedTasks"] == 0
        assert job.report["tasks"] > 0
        epoch = job.epoch
        mark("one is killed")
        killed, pid = job.find_executor("billing-0")
        os.kill(pid, signal.SIGKILL)
        until_replaced("billing-0", killed)
        mark("one is frozen")
        frozen, pid = job.find_executor("billing-1")
        os.kill(pid, signal.SIGSTOP)
        until_replaced("billing-1", frozen)
        assert job.epoch == epoch, "a replaced executor moves nothing"

        mark("queues are added")
        astray = job.report["misplacedTasks"]  # tasks of lost executors ran elsewhere
        client.put_topics([TopicConfig(topic, 6, 6)])
        job.wait_until(lambda it: it["adoptedEpoch"] > epoch)

        mark("no more messages")
        numbers.stop()
        ends = numbers.find_ends(client)
        job.wait_until(
            lambda _: all(
                client.find_committed(job.group, queue) == end for queue, end in ends.items()
            )
        )
        assert job.report["pinned"]
        shown = job.read_metrics()
        assert shown["epoch_published"] == shown["epoch_adopted"] == job.epoch
        assert shown["slots_filled"] == 2
        assert shown["misplaced_tasks_total"] == astray
        failures = re.findall(r"the \w+ starts again in \S+ s: (.*)", job.log)
        assert set(failures) <= {SLOW}
        assert shown["failures_total"] == len(failures)
        assert sum(shown[f'rows_total{{slot="billing-{slot}"}}'] for slot in (0, 1)) > 0
        lags = [value for name, value in shown.items() if name.startswith("lag_messages")]
        assert lags == [0] * 12
        (member,) = client.list_member_ids(job.group, topic)
        assert member.startswith("evenkeel-billing@")
        assert job.end_by(signal.SIGTERM) == 0
        assert client.list_member_ids(job.group, topic) == []
    for event, seconds in job.measure_standstills(marks).items():
        print(f"{event}: a queue stood still for {seconds:.1f} s at most")  # noqa: T201  # a figure
    assert sorted(int(row["body"]) for row in job.read_rows()) == list(range(numbers.sent))
