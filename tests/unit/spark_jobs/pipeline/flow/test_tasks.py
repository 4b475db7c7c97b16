"""A task runs in each filled slot, and begins again when it has failed."""

from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JError

from sandbox.waiting import wait_for
from spark_jobs.pipeline import executors
from spark_jobs.pipeline.executors import Executor
from spark_jobs.pipeline.flow.tasks import FlowTasks, TaskRetries

ONE, TWO = Executor("1", "10.0.0.1", 1), Executor("2", "10.0.0.2", 1)
SPARK_SAYS = """Job aborted due to stage failure: Task 0 failed
Traceback (most recent call last):
  File "users.py", line 3, in __init__
ValueError: no model

	at org.apache.spark.api.python.BasePythonRunner
"""


class FakeSpark:
    """Runs the tasks, and lets them end when the test says so."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, str]] = []
        self.errors: list[Exception] = []
        self.rows = 0

    def run_on(self, context: object, executor: Executor, task: str) -> list[None]:
        self.runs.append((task, executor.id))
        if self.errors:
            raise self.errors.pop()
        return []


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    found = FakeSpark()
    monkeypatch.setattr(executors, "run_on", found.run_on)
    return found


def make_tasks(spark: FakeSpark) -> FlowTasks:
    name: Callable[[str], Any] = lambda slot: f"task of {slot}"  # noqa: E731
    nothing: Any = None
    return FlowTasks(nothing, name, lambda _: spark.rows)


def test_a_task_that_ends_begins_again(spark: FakeSpark) -> None:
    tasks = make_tasks(spark)
    for expected in (1, 2):
        tasks.keep({"a": ONE})
        tasks.wait_for_ends()
        assert spark.runs == [("task of a", "1")] * expected


def test_another_executor_of_the_slot_gets_a_task_at_once(spark: FakeSpark) -> None:
    tasks = make_tasks(spark)
    tasks.keep({"a": ONE})
    tasks.keep({"a": TWO, "b": ONE})
    tasks.wait_for_ends()
    assert sorted(spark.runs) == [("task of a", "1"), ("task of a", "2"), ("task of b", "1")]


def test_a_task_that_fails_again_and_again_is_named_until_it_commits(spark: FakeSpark) -> None:
    tasks = make_tasks(spark)
    spark.errors = [Py4JError(SPARK_SAYS), Py4JError(SPARK_SAYS)]

    def is_tried(count: int) -> bool:
        tasks.keep({"a": ONE})
        return len(spark.runs) == count

    assert wait_for(lambda: is_tried(1), bool)
    tasks.wait_for_ends()
    assert tasks.trouble is None, "an executor may be lost once"
    assert wait_for(lambda: is_tried(2), bool)
    tasks.wait_for_ends()
    assert tasks.trouble == "slot a: its task on executor 1 has ended: ValueError: no model"
    spark.rows = 1
    assert tasks.trouble is None


def test_pauses_grow_until_a_task_commits() -> None:
    retries = TaskRetries()
    pauses = []
    for rows in (0, 0, 0, 7, 7):
        retries.note_failure(rows, 100.0, "no")
        pauses.append(retries.at - 100.0)
    assert pauses == [pauses[0], 2 * pauses[0], 4 * pauses[0], pauses[0], 2 * pauses[0]]
