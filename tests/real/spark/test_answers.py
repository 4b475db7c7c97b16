"""
Whatever a broker answers to a pull (`matrix`), Spark's readers never lose messages silently.

A relay in front of the shared brokers changes some answers, and passes on all others. All rows of
the matrix are read concurrently, each from its own topic, and the relay counts the pulls.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mq_client import blocking
from mq_client.values import MessageQueue
from sandbox.rocketmq import RocketMq
from spark_jobs import connections, options
from spark_jobs.pipeline.fetching import Fetcher, Spec, Tally
from tests.answers import Answers
from tests.real.spark import matrix
from tests.real.spark.matrix import MESSAGES, ROWS, Must, Read, Row, Rules
from tests.real.spark.source import Source, ends_at, send

AT_ONCE = 8
BROKER = "broker-b"
OUT_OF_TIME = "all retries failed"
MOST_READS = 10
"""A slow machine may not receive all changed answers of a row within `fetchDeadline`."""
GIVEN = {"startFrom": "earliest", "fetchDeadline": "2s"}


@pytest.fixture
def answers(rocketmq: RocketMq) -> Iterator[Answers]:
    with Answers(rocketmq.name_server.address) as relay:
        yield relay


@pytest.fixture
def fill(
    rocketmq: RocketMq, client: blocking.Client, unique_name: str
) -> Callable[[list[Row]], list[MessageQueue]]:
    """Create a topic for each row of the matrix, and send numbers to it."""

    def fill(rows: list[Row]) -> list[MessageQueue]:
        queues = [MessageQueue(f"{unique_name}-{number}", BROKER, 0) for number in range(len(rows))]
        rocketmq.create_topics({queue.topic: 1 for queue in queues}, [BROKER])
        for queue in queues:
            send(client, queue, *(b"%d" % number for number in range(MESSAGES)))
        for queue in queues:
            ends_at(client, queue.topic, MESSAGES)
        return queues

    return fill


def check(
    answers: Answers,
    rows: list[Row],
    queues: list[MessageQueue],
    read: Callable[[str], list[int]],
    *,
    may_lose: bool,
    at_once: int = AT_ONCE,
) -> None:
    """Read each row's topic with this reader; fail with a list of everything that went wrong."""
    Rules(answers, [(queue.topic, row) for queue, row in zip(queues, rows, strict=True)])

    def outcome(queue: MessageQueue, row: Row) -> Read:
        began, numbers, error = time.monotonic(), [], None
        for left in reversed(range(MOST_READS)):
            error = None
            try:
                numbers = read(queue.topic)
            except Exception as caught:  # noqa: BLE001  # every error is checked
                error = str(caught)
            if not (left and error and row.times is not None and OUT_OF_TIME in error):
                break
        seconds = time.monotonic() - began
        pulls = sum(pulled == queue for pulled, _ in list(answers.pulls))
        return Read(numbers, error, pulls, seconds)

    with ThreadPoolExecutor(at_once) as pool:
        reads = list(pool.map(outcome, queues, rows))
    found = [
        matrix.complaint(row, queue, each, may_lose=may_lose)
        for row, queue, each in zip(rows, queues, reads, strict=True)
    ]
    told = [each for each in found if each]
    assert not told, "\n".join(told)


@pytest.mark.parametrize("may_lose", [False, True])
def test_a_pinned_jobs_task_gives_all_rows_or_names_what_is_missing(
    answers: Answers, fill: Callable[[list[Row]], list[MessageQueue]], may_lose: bool
) -> None:
    given = {"nameServers": answers.address, **GIVEN, "failOnDataLoss": str(not may_lose)}
    # Create the client first: a real worker has one thread, but many threads would create it here.
    client = connections.get_client(
        options.parse_reading({**given, "topics": "any"}, is_stream=True).cluster
    )

    class Sum:
        value = Tally()

        def add(self, tally: Tally) -> None:
            pass

    def read(topic: str) -> list[int]:
        reading = options.parse_reading({**given, "topics": topic}, is_stream=True)
        fetcher = Fetcher(reading, reading.wanted, Sum())  # type: ignore[arg-type]
        spec = Spec(None, None, [(topic, BROKER, 0, 0, MESSAGES)])
        asked = pa.RecordBatch.from_pydict({"value": [msgspec.json.encode(spec).decode()]})
        return [int(body) for batch in fetcher([asked]) for body in batch["body"].to_pylist()]

    with client:
        check(answers, ROWS, fill(ROWS), read, may_lose=may_lose)


@pytest.mark.parametrize("may_lose", [False, True])
def test_spark_read_gives_all_rows_or_names_what_is_missing(
    spark: SparkSession,
    answers: Answers,
    fill: Callable[[list[Row]], list[MessageQueue]],
    tmp_path: Path,
    may_lose: bool,
) -> None:
    rows = chosen(may_lose)
    source = Source(spark, answers.address, tmp_path)
    given: dict[str, Any] = {**GIVEN, "failOnDataLoss": str(not may_lose)}
    read = lambda topic: numbers(source.rows(topics=topic, **given))  # noqa: E731
    check(answers, rows, fill(rows), read, may_lose=may_lose)


@pytest.mark.parametrize("may_lose", [False, True])
def test_a_stream_gives_all_rows_or_names_what_is_missing(
    spark: SparkSession,
    source: Source,
    answers: Answers,
    fill: Callable[[list[Row]], list[MessageQueue]],
    tmp_path: Path,
    may_lose: bool,
) -> None:
    rows = chosen(may_lose)[::2]
    queues = fill(rows)
    given: dict[str, Any] = {**GIVEN, "failOnDataLoss": str(not may_lose)}
    # The first stream of a source must not start beside another one: see docs/spark.md.
    source.run(topics=queues[0].topic, **GIVEN)

    def read(topic: str) -> list[int]:
        source = Source(spark, answers.address, tmp_path / topic)
        return numbers([row for batch in source.run(topics=topic, **given).rows for row in batch])

    # Each query starts Python processes, for which Spark waits only about ten seconds.
    check(answers, rows, queues, read, may_lose=may_lose, at_once=2)


def chosen(may_lose: bool) -> list[Row]:
    """Choose some rows of each kind. If losses are allowed, choose only rows that they affect."""
    if may_lose:
        return [row for row in ROWS if row.must is Must.TELL_LOSS][::3]
    kinds: dict[tuple[Must, bool], list[Row]] = {}
    for row in ROWS:
        kinds.setdefault((row.must, row.times is None), []).append(row)
    return [row for rows in kinds.values() for row in rows[::4]]


def numbers(rows: list[Any]) -> list[int]:
    return [int(bytes(row.body)) for row in rows]
