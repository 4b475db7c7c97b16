"""
A whole pinned job gets the answers of `matrix`, one after another, with one checkpoint.

`test_answers` tests tasks of such jobs with every answer. Here, a driver plans, fails, runs
a batch again, ends and starts again.
"""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.exit_codes import DONE, PERMANENT
from mq_client import blocking
from mq_client.frames import Frame
from mq_client.values import MessageQueue
from sandbox import jars
from sandbox.jobs import PATIENCE_SECONDS, SPARK, RunningJob
from sandbox.rocketmq import RocketMq
from tests.answers import Answers, Asked, said
from tests.real.spark.matrix import Change, plain
from tests.real.spark.source import ends_at, send

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

AT_ONCE = 10
"""How many messages are sent before each changed answer."""
MOST_PULLS = 300
"""More pulls than these mean a busy loop."""
ONE_PROCESS = {**SPARK, "spark.master": "local[2]", "spark.executor.instances": "0"}


def later(code: int, remark: str) -> Change:
    """Answer with a next offset after the first half of the messages."""

    def change(asked: Asked, answer: Frame) -> Frame:
        return said(answer, code, remark, b"", next_offset=asked.offset + AT_ONCE // 2)

    return change


def ends_before(asked: Asked, answer: Frame) -> Frame:
    """Answer that the queue is empty, like a queue of a recreated topic."""
    return said(answer, 21, "OFFSET_OVERFLOW_BADLY", b"", next_offset=0, max_offset=0)


PASSING = {
    "20 MESSAGE_WAS_REMOVING": (later(20, "MESSAGE_WAS_REMOVING"), 1),
    "20 NO_MATCHED_MESSAGE": (later(20, "NO_MATCHED_MESSAGE"), 1),
    "19 OFFSET_FOUND_NULL": (later(19, "OFFSET_FOUND_NULL"), 1),
    "21 OFFSET_OVERFLOW_BADLY": (plain(21, "OFFSET_OVERFLOW_BADLY", 0), 3),
    "20 and the same offset": (plain(20, "NO_MATCHED_MESSAGE"), 3),
}
"""The answers, and how often each comes: two equal answers of a master prove a loss."""
LASTING = {
    "20 MESSAGE_WAS_REMOVING": (later(20, "MESSAGE_WAS_REMOVING"), "are deleted"),
    "21 OFFSET_OVERFLOW_BADLY": (ends_before, "ends at 0"),
}


class Faulty:
    """A queue behind a relay, and a job that reads it in order."""

    def __init__(
        self, answers: Answers, client: blocking.Client, queue: MessageQueue, folder: Path
    ) -> None:
        """Start nothing yet."""
        self.answers, self.client, self.queue, self.folder = answers, client, queue, folder
        options = {"fetchDeadline": "2s"}
        parts = {"spark": ONE_PROCESS}
        self.job = RunningJob(
            folder, client, queue.topic, answers.address, options=options, parts=parts
        )
        self.sent = 0
        self.given = 0

    def fail(self, change: Change, times: float = float("inf")) -> None:
        """Send messages, and change the answers to pulls at the first of these messages."""
        first, self.given = self.sent, 0

        def after(asked: Asked, answer: Frame) -> Frame:
            if not asked.is_pull or asked.offset != first or self.given >= times:
                return answer
            self.given += 1
            return change(asked, answer)

        self.answers.after = after
        send(self.client, self.queue, *(b"%d" % (first + n) for n in range(AT_ONCE)))
        self.sent += AT_ONCE
        ends_at(self.client, self.queue.topic, self.sent)

    def heal(self) -> None:
        """Pass on all answers unchanged from now on."""
        self.answers.after = lambda _, answer: answer

    def committed(self) -> int | None:
        return self.client.find_committed(self.job.group, self.queue)

    def rows(self) -> list[int]:
        """List the numbers in the sink."""
        parts = (self.folder / "rows").rglob("part-*.json")
        lines = [line for part in parts for line in part.read_text().splitlines()]
        return sorted(int(json.loads(line)["body"]) for line in lines)


@pytest.fixture
def faulty(
    rocketmq: RocketMq, client: blocking.Client, unique_name: str, tmp_path: Path
) -> Iterator[Faulty]:
    queue = MessageQueue(unique_name, "broker-b", 0)
    rocketmq.create_topics({unique_name: 1}, [queue.broker])
    with Answers(rocketmq.name_server.address) as answers:
        made = Faulty(answers, client, queue, tmp_path)
        with made.job:
            yield made


def test_a_pinned_job_reads_all_rows_or_ends_with_the_queue_in_its_error(faulty: Faulty) -> None:
    job, queue = faulty.job, faulty.queue

    def has_read_all(report: dict[str, Any]) -> bool:
        return report["error"] is None and faulty.committed() == faulty.sent

    for name, (change, times) in PASSING.items():
        faulty.fail(change, times)
        job.wait_until(has_read_all)
        assert faulty.given == times, name

    faulty.fail(plain(20, "NO_MATCHED_MESSAGE"))  # until the job has reported it
    said_so = job.wait_until(lambda it: it["error"] is not None)["error"]
    assert f"{queue} from offset {faulty.sent - AT_ONCE}: all retries failed" in said_so
    faulty.heal()
    job.wait_until(has_read_all)

    for name, (change, words) in LASTING.items():
        before = faulty.rows()
        faulty.fail(change)
        assert job.process.wait(PATIENCE_SECONDS) == PERMANENT, name
        told = job.report["error"]
        assert str(queue) in told, name
        assert words in told, name
        assert (faulty.rows(), faulty.committed()) == (before, len(before)), name
        faulty.heal()
        job.start()
        job.wait_until(has_read_all)
    assert job.end_by(signal.SIGTERM) == DONE
    assert faulty.rows() == list(range(faulty.sent))
    assert len(faulty.answers.pulls) <= MOST_PULLS
