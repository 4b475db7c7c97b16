"""
Plays one random history of a job with batches, with real Spark executors and real brokers.

It kills and freezes the driver, executors and brokers, and moves queues. At the end everything runs
again. Then each number that was sent must be in the rows or in the dead letters once, and the
offsets in the journal must be the ends of all queues.
"""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mq_client.blocking import Client
from mq_client.values import MessageQueue
from sandbox import executors, sinks
from sandbox.jobs import JobError, RunningJob
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for
from spark_jobs import journal as offsets
from spark_jobs.pipeline.checkpoint.journal import JobJournal
from spark_jobs.pipeline.checkpoint.stores import LocalStore
from tests.real.numbers import Numbers

SLOTS = 3
EVENTS = 8
MOST_PAUSE, MOST_FROZEN = 3.0, 5.0
"""In seconds. The driver cancels a batch that waits for something silent after about three."""
PATIENCE_SECONDS = 600.0
SQL = """
    SELECT CAST(body AS string) AS body,
           CASE WHEN CAST(CAST(body AS string) AS int) % 7 = 0 THEN 'seven' END AS _error
    FROM messages
"""
OWN_SINK = '''
"""Replaces the folder of a batch, so a batch that runs again may have fewer rows."""

FEWER_ROWS = {fewer}


def write(df, query, batch):
    df.write.mode("overwrite").json(f"{rows}/query={{query}}/batch={{batch}}")
'''


@dataclass
class History:
    """The history that is being played, and what has happened in it."""

    mq: RocketMq
    job: RunningJob
    rng: random.Random
    told: list[str] = field(default_factory=list)
    frozen: list[int] = field(default_factory=list)
    """Executors that stay frozen for one event or more, or until the driver ends."""

    def restart_if_ended(self) -> None:
        """Start the driver again if it has ended, as Kubernetes does."""
        if self.job.process.poll() is not None:
            self.job.end_by(0)  # and what it has left behind
            self.job.start()

    def thaw(self) -> None:
        """Let all frozen executors go on."""
        for pid in self.frozen:
            _send(pid, signal.SIGCONT)
        self.frozen.clear()

    def choose_executor(self) -> int | None:
        """Choose the process of an executor that fills a slot; None if there is none."""
        slots = sorted(self.job.report["slots"])
        with contextlib.suppress(JobError, KeyError):  # it has just ended
            return self.job.find_executor(self.rng.choice(slots))[1] if slots else None
        return None


def kill_an_executor(it: History) -> None:
    if (pid := it.choose_executor()) is not None:
        _send(pid, signal.SIGKILL)


def freeze_an_executor(it: History) -> None:
    if (pid := it.choose_executor()) is not None:
        _send(pid, signal.SIGSTOP)
        time.sleep(it.rng.uniform(0.1, MOST_FROZEN))  # it is frozen for this time
        _send(pid, signal.SIGCONT)


def leave_an_executor_frozen(it: History) -> None:
    """The executor wakes up when others have run its tasks again."""
    if (pid := it.choose_executor()) is not None:
        _send(pid, signal.SIGSTOP)
        it.frozen.append(pid)


def kill_the_driver(it: History) -> None:
    it.job.end_by(signal.SIGKILL)


def end_the_driver(it: History) -> None:
    it.job.end_by(signal.SIGTERM)


def freeze_the_machine_of_the_driver(it: History) -> None:
    """Freeze the driver and all its executors."""
    stopped = executors.list_session(it.job.process.pid)
    for pid in stopped:
        _send(pid, signal.SIGSTOP)
    time.sleep(it.rng.uniform(0.1, MOST_FROZEN))  # they are frozen for this time
    for pid in stopped:
        _send(pid, signal.SIGCONT)


def kill_a_broker(it: History) -> None:
    it.mq.brokers[it.rng.choice(sorted(it.mq.brokers))].restart()


def freeze_a_broker(it: History) -> None:
    broker = it.mq.brokers[it.rng.choice(sorted(it.mq.brokers))].pid
    _send(broker, signal.SIGSTOP)
    time.sleep(it.rng.uniform(0.1, MOST_FROZEN))  # it is frozen for this time
    _send(broker, signal.SIGCONT)


def scale(it: History) -> None:
    it.job.wanted = it.rng.randint(1, SLOTS)


def change_the_lanes(it: History) -> None:
    """The next driver deals the planned batches to its own lanes."""
    it.job.parts["lanes"] = it.rng.choice((1, SLOTS))
    kill_the_driver(it)


def add_a_queue(it: History) -> None:
    count = len(it.job.client.find_route(it.job.topic, max_age=0).readable)
    it.mq.create_topics({it.job.topic: count // len(it.mq.brokers) + 1})


EVENT_WEIGHTS: dict[Callable[[History], None], int] = {
    kill_an_executor: 5, freeze_an_executor: 4, leave_an_executor_frozen: 3, kill_the_driver: 4,
    end_the_driver: 1, freeze_the_machine_of_the_driver: 3, kill_a_broker: 2, freeze_a_broker: 4,
    scale: 3, change_the_lanes: 2, add_a_queue: 1,
}  # fmt: skip


def play(mq: RocketMq, client: Client, folder: Path, topic: str, seed: int) -> None:
    """Play the history of a seed; if it ends wrongly, raise an `AssertionError` with its events."""
    mq.create_topics({topic: 2})
    with _open(mq, client, folder, topic, seed) as it:
        try:
            with Numbers(mq.name_server.address, topic) as numbers:
                it.job.wait_until(lambda report: report.get("batch", -1) >= 0)
                for _ in range(EVENTS):
                    [event] = it.rng.choices(list(EVENT_WEIGHTS), list(EVENT_WEIGHTS.values()))
                    it.told.append(f"{numbers.sent:5d} sent  {event.__name__}")
                    event(it)
                    time.sleep(it.rng.uniform(0, MOST_PAUSE))
                    it.restart_if_ended()
                    if it.rng.random() < 0.5:
                        it.thaw()
                it.thaw()
            _check(it, numbers)
        except Exception as error:
            it.thaw()
            events = "\n".join(it.told)
            text = f"history {seed}: {error}\n{it.job.parts}\n{events}\n{it.job.log[-20_000:]}"
            raise AssertionError(text) from error


@contextmanager
def _open(mq: RocketMq, client: Client, folder: Path, topic: str, seed: int) -> Iterator[History]:
    rng = random.Random(seed)
    parts: dict[str, Any] = {
        "engine": "Batch", "lanes": rng.choice((1, SLOTS)), "transform": {"sql": SQL},
        "deadLetter": {"format": "json", "path": str(folder / "dead")}, "triggerSeconds": 0.2,
    }  # fmt: skip
    if rng.random() < 0.5:
        file = folder / "own_sink.py"
        file.write_text(OWN_SINK.format(fewer=rng.random() < 0.5, rows=folder / "rows"))
        parts["sink"] = {"file": str(file)}
    job = RunningJob(folder, client, topic, mq.name_server.address, wanted=SLOTS, parts=parts)
    with job:
        yield History(mq, job, rng)


def _check(it: History, numbers: Numbers) -> None:
    sure = set(range(numbers.sent)) - numbers.unsure

    def look() -> Counter[int]:
        it.restart_if_ended()
        return _count(it)

    found = wait_for(look, lambda found: sure <= found.keys(), PATIENCE_SECONDS)
    assert sure <= found.keys(), f"lost: {sorted(sure - found.keys())[:9]}"
    ends = {queue: each.max for queue, each in it.job.client.list_offsets(it.job.topic).items()}
    read = wait_for(lambda: _read_journal(it), lambda read: read == ends, PATIENCE_SECONDS)
    assert read == ends, f"the journal has {read}, and the queues end at {ends}"
    found = _count(it)
    doubled = sorted(number for number, count in found.items() if count > 1)
    assert not doubled, f"doubled: {doubled[:9]}"
    assert sum(found.values()) == sum(ends.values()), "each offset gave a row"


def _count(it: History) -> Counter[int]:
    """Count how often each number is in finished batches of the sink and of the dead letters."""
    counts: Counter[int] = Counter()
    for name in ("rows", "dead"):
        for done in sinks.list_finished(it.job.folder / name):
            with contextlib.suppress(FileNotFoundError):  # the batch is being replaced
                counts.update(int(row["body"]) for row in sinks.read_batch(done)[1])
    return counts


def _read_journal(it: History) -> dict[MessageQueue, int]:
    it.restart_if_ended()
    state = JobJournal(LocalStore(it.job.folder / "checkpoint")).read_newest()
    assert state is not None
    return dict(offsets.read_offsets(state.offsets))


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
