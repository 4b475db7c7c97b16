"""Where the rows of a flow go: databases, tables, topics and functions of users."""

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.dataset
import pyarrow.fs
import pytest

from contract.exit_codes import DONE
from mq_client import blocking
from sandbox import jars
from sandbox.jobs import PATIENCE_SECONDS, RunningJob
from sandbox.rocketmq import RocketMq
from sandbox.s3 import S3Server
from sandbox.waiting import wait_for
from spark_jobs.pipeline.flow.sinks.iceberg import IcebergPlace
from tests.real.numbers import Numbers
from tests.real.spark.source import list_stored
from tests.tables import make_delta, make_iceberg

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

BODIES = """
import os
import pyarrow as pa

def transform_batches(batches):
    for batch in batches:
        bodies = batch["body"].cast(pa.string())
        errors = ["odd" if each == "43" else None for each in bodies.to_pylist()]
        yield pa.RecordBatch.from_pydict({"body": bodies, "_error": errors})

def write_batches(batches, steps):
    assert all(step.begin < step.end for step in steps)
    name = f"{steps[0].queue.id}-{steps[0].begin}-{os.getpid()}"
    with open(f"FOLDER/{name}", "w") as out:
        for row in (row for batch in batches for row in batch.to_pylist()):
            out.write(f"{row['body']} {row['_error']}\\n")
"""
REFUSED = "41"
LETTERS = """
CREATE TABLE letters (
    topic text, broker_name text, queue_id int, queue_offset bigint, msg_id text, keys text,
    tags text, body bytea, born_timestamp timestamptz, store_timestamp timestamptz,
    reconsume_times int, _error text
)
"""
"""
The columns for a message that the job has given up. For a row with an `_error`, only the row's own
columns are written.
"""


def flow(folder: Path, **parts: Any) -> dict[str, Any]:
    """Return fields that name no engine. A flow can run such a job, so the job becomes a flow."""
    file, made = folder / "users.py", folder / "made"
    made.mkdir()
    file.write_text(BODIES.replace("FOLDER", str(made)))
    return {"transform": {"file": str(file)}, **parts}


def test_postgresql_has_each_row_once_whatever_comes_and_goes(
    rocketmq: RocketMq, client: blocking.Client, postgres_address: str, tmp_path: Path,
    unique_name: str,
) -> None:  # fmt: skip
    rocketmq.create_topics({unique_name: 4})
    where = rocketmq.name_server.address
    with psycopg.connect(postgres_address, autocommit=True) as database:
        play_kills(client, where, postgres_address, database, tmp_path, unique_name)


def play_kills(
    client: blocking.Client, where: str, address: str, database: Any, folder: Path, topic: str
) -> None:
    database.execute("DROP TABLE IF EXISTS rows, letters, evenkeel_positions")
    database.execute(f"CREATE TABLE rows (body text CHECK (body <> '{REFUSED}'))")
    database.execute(LETTERS)
    options = {"url": address}
    parts = flow(
        folder,
        sink={"format": "postgresql", "options": {**options, "table": "rows"}},
        deadLetter={"format": "postgresql", "options": {**options, "table": "letters"}},
    )

    def count(table: str) -> Counter[str]:
        text = "body" if table == "rows" else "convert_from(body, 'utf8')"
        found = database.execute(f"SELECT {text} FROM {table}").fetchall()
        return Counter(body for (body,) in found)

    def read_on() -> None:
        before = sum(count("rows").values())
        job.wait_until(lambda _: sum(count("rows").values()) > before + 20)

    def until_replaced(executor: str) -> None:
        job.wait_until(
            lambda it: it["slots"].get("billing-0", {"executor": executor})["executor"] != executor
        )

    with (
        Numbers(where, topic) as numbers,
        RunningJob(folder, client, topic, where, parts=parts) as job,
    ):
        job.wait_until_adopted(slots=2)
        assert job.report["engine"].startswith("Flow, because")
        read_on()
        for number in (signal.SIGKILL, signal.SIGSTOP):
            executor, pid = job.find_executor("billing-0")
            os.kill(pid, number)
            until_replaced(executor)
            database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'evenkeel'"
            )
            read_on()
        job.end_by(signal.SIGKILL)
        job.start()
        read_on()
        numbers.stop()
        expected = {str(number): 1 for number in range(numbers.sent)}
        job.wait_until(lambda _: sum((count("rows") + count("letters")).values()) >= len(expected))
        assert job.end_by(signal.SIGTERM) == DONE
    assert count("rows") + count("letters") == expected
    assert count("letters") == {"41": 1, "43": 1}
    errors = dict(database.execute("SELECT body, _error FROM letters").fetchall())
    assert errors[b"43"] == "odd"
    assert "rows_body_check" in errors[REFUSED.encode()]


def test_a_scheduled_run_sends_rows_to_a_topic_and_dead_letters_to_a_function_and_ends(
    rocketmq: RocketMq, client: blocking.Client, tmp_path: Path, unique_name: str
) -> None:
    out = f"{unique_name}-out"
    rocketmq.create_topics({unique_name: 2, out: 2})
    where = rocketmq.name_server.address
    parts = flow(
        tmp_path,
        engine="Flow",
        mode="Scheduled",
        sink={"format": "rocketmq", "options": {"nameServers": where, "topic": out}},
        deadLetter={"file": str(tmp_path / "users.py")},
    )
    with Numbers(where, unique_name) as numbers:
        wait_for(lambda: numbers.sent, lambda sent: sent > 60)
    ends = numbers.find_ends(client)
    with RunningJob(tmp_path, client, unique_name, where, parts=parts) as job:
        assert job.process.wait(PATIENCE_SECONDS) == DONE, job.log
        assert {each: client.find_committed(job.group, each) for each in ends} == ends
        job.start()
        assert job.process.wait(PATIENCE_SECONDS) == DONE, "there is nothing to read"
        assert job.report["executors"] == []
    expected = [b"%d" % number for number in range(numbers.sent) if number != 43]
    found = list_stored(client, out, len(expected))
    assert sorted(each.body for each in found) == sorted(expected)
    letters = [file.read_text() for file in (tmp_path / "made").iterdir()]
    assert letters == ["43 odd\n"]


def test_a_query_of_duckdb_fills_an_iceberg_table_and_a_delta_table_of_dead_letters(
    rocketmq: RocketMq, client: blocking.Client, tmp_path: Path, unique_name: str
) -> None:
    rocketmq.create_topics({unique_name: 2})
    where = rocketmq.name_server.address
    rows, letters = make_iceberg(tmp_path), make_delta(tmp_path)
    assert isinstance(rows.place, IcebergPlace)
    query = """
        SELECT CAST(decode(body) AS bigint) AS number, store_timestamp,
        CASE WHEN decode(body) = '43' THEN 'odd' END AS _error FROM messages
    """
    options = dict(rows.place.options)
    parts = {
        "engine": "Flow",
        "transform": {"duckdb": query},
        "sink": {"format": "iceberg", "path": rows.place.name, "options": options},
        "deadLetter": {"format": "delta", "path": letters.place.name},
    }
    with (
        Numbers(where, unique_name) as numbers,
        RunningJob(tmp_path, client, unique_name, where, parts=parts) as job,
    ):
        job.wait_until_adopted(slots=2)
        wait_for(lambda: numbers.sent, lambda sent: sent > 60)
        numbers.stop()
        job.wait_until(lambda report: report["offsets"] == numbers.sent)
        assert job.end_by(signal.SIGTERM) == DONE
    expected = [number for number in range(numbers.sent) if number != 43]
    assert sorted(rows.read()["number"].to_pylist()) == expected
    assert letters.read().select(["number", "_error"]).to_pylist() == [
        {"number": 43, "_error": "odd"}
    ]


def test_a_scheduled_run_writes_files_into_a_bucket_and_the_next_one_goes_on(
    rocketmq: RocketMq, client: blocking.Client, s3_server: S3Server, tmp_path: Path,
    unique_name: str,
) -> None:  # fmt: skip
    rocketmq.create_topics({unique_name: 2})
    where = rocketmq.name_server.address
    path, options = f"{s3_server.bucket}/{unique_name}", s3_server.options
    parts = flow(
        tmp_path,
        engine="Flow",
        mode="Scheduled",
        sink={"format": "parquet", "path": f"s3://{path}/rows", "options": options},
        deadLetter={"format": "json", "path": f"s3a://{path}/dead", "options": options},
    )
    system = pyarrow.fs.S3FileSystem(**options)

    def read(name: str, form: str) -> list[str]:
        files = pyarrow.dataset.dataset(f"{path}/{name}", format=form, filesystem=system)
        found: list[str] = files.to_table()["body"].to_pylist()
        return sorted(found)

    with Numbers(where, unique_name) as numbers:
        wait_for(lambda: numbers.sent, lambda sent: sent > 60)
        with RunningJob(tmp_path, client, unique_name, where, parts=parts) as job:
            assert job.process.wait(PATIENCE_SECONDS) == DONE, job.log
            numbers.stop()
            job.start()
            assert job.process.wait(PATIENCE_SECONDS) == DONE, job.log
    assert read("rows", "parquet") == sorted(str(n) for n in range(numbers.sent) if n != 43)
    assert read("dead", "json") == ["43"]
