"""Sinks for rows and dead letters that are independent of each other, and users' functions."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from follower.positions import Step
from mq_client.values import MessageQueue
from spark_jobs.pipeline.flow.sinks.functions import FunctionSink
from spark_jobs.pipeline.flow.sinks.kinds import Delivery
from spark_jobs.pipeline.flow.sinks.separate import SeparateSinks

QUEUE = MessageQueue("orders", "broker-a", 0)
DELIVERY = Delivery("session", 1, [Step("billing", QUEUE, 3, 5)])
ROW = pa.RecordBatch.from_pydict({"n": [1]})


class Keeping:
    """A user's class that keeps positions."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.calls: list[tuple[int, Sequence[Step]]] = []

    def __call__(self, batches: list[pa.RecordBatch], steps: Sequence[Step]) -> None:
        self.calls.append((len(batches), steps))

    def read_position(self, group: str, queue: MessageQueue) -> int:
        return len(self.calls)


def test_dead_letters_are_written_before_rows_that_move_positions() -> None:
    order: list[str] = []
    sinks = SeparateSinks(
        FunctionSink(lambda batches, steps: order.append("rows")),
        FunctionSink(lambda batches, steps: order.append("dead")),
    )
    sinks.open().write(DELIVERY, [ROW], [ROW])
    assert order == ["dead", "rows"]


def test_dead_letters_are_appended_once_while_the_rows_wait_for_their_sink() -> None:
    letters: list[pa.RecordBatch] = []
    failures = [OSError("away"), OSError("away")]

    def write_rows(batches: list[pa.RecordBatch], steps: Sequence[Step]) -> None:
        if failures:
            raise failures.pop()

    writers = SeparateSinks(
        FunctionSink(write_rows), FunctionSink(lambda batches, steps: letters.extend(batches))
    ).open()
    first, second, third = (pa.RecordBatch.from_pydict({"n": [n]}) for n in range(3))
    for dead in ([first], [first, second]):
        with pytest.raises(OSError, match="away"):
            writers.write(DELIVERY, [ROW], dead)
    writers.write(DELIVERY, [ROW], [first, second])
    writers.write(DELIVERY, [ROW], [third])
    assert letters == [first, second, third]


def test_a_function_is_called_without_rows_only_to_move_positions() -> None:
    calls: list[Any] = []
    plain = FunctionSink(lambda batches, steps: calls.append(steps)).open()
    plain.write(DELIVERY, [])
    assert (calls, plain.positions) == ([], None)
    plain.write(DELIVERY, [ROW])
    assert calls == [DELIVERY.steps]
    sink = FunctionSink(Keeping)
    assert sink.has_positions
    assert Keeping.made == 0, "only tasks make instances"
    keeping = sink.open()
    assert keeping.positions is not None
    assert keeping.positions("billing", QUEUE) == 0
    keeping.write(DELIVERY, [])
    assert keeping.positions("billing", QUEUE) == 1
