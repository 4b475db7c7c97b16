"""Which engine runs a job if the user has not chosen an engine."""

from pathlib import Path
from typing import Any

import pytest

from contract.kinds.jobs import JobEngine
from mq_client.errors import UsageError
from spark_jobs import options
from spark_jobs.pipeline import engines
from tests.pinned_jobs import make_job_file

SOURCE = {"nameServers": "n:1", "topics": "orders", "group": "billing"}


def choose(source: dict[str, str] = SOURCE, **changed: Any) -> engines.EngineChoice:
    return engines.choose(make_job_file(**changed), options.parse_reading(source, is_stream=True))


@pytest.mark.parametrize("engine", ["Batch", "Flow"])
def test_what_the_user_has_chosen_is_what_runs(engine: str) -> None:
    assert str(choose(engine=engine, transform={"sql": "SELECT 1"})) == engine


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_files_without_a_transform_are_written_by_a_flow(form: str) -> None:
    found = choose(sink={"format": form, "path": "/rows"})
    assert str(found) == "Flow, because a flow can do all that this job needs"


TERMS = {
    "topics": ["orders"], "invisibleSeconds": 60.0, "batch": 32, "mostAttempts": 16,
    "backoffSeconds": 10.0,
}  # fmt: skip


def test_a_group_that_is_balanced_by_message_needs_a_flow() -> None:
    found = choose(messages=TERMS, sink={"format": "csv", "path": "/rows"})
    assert str(found) == "Flow, because the group has balance Messages"
    with pytest.raises(UsageError, match=r"balance Messages is for engine Flow, and .* is Batch"):
        choose(messages=TERMS, engine="Batch")


@pytest.mark.parametrize(
    ("changed", "obstacles"),
    [
        ({"transform": {"sql": "SELECT 1"}}, "transform.sql"),
        ({"lanes": 2}, "lanes"),
        (
            {"mode": "Scheduled", "sink": {"format": "orc"}},
            "sink.format orc, other than csv, delta, iceberg, json, parquet, postgresql, rocketmq; "
            "a scheduled run that ends although a queue stands still",
        ),
        ({"sink": {"format": "csv", "path": "/rows"}}, "csv in Spark's way"),
        ({"deadLetter": {"format": "csv", "path": "/bad"}}, "csv in Spark's way"),
        ({"sink": {"format": "json", "path": "s3a://lake/rows"}}, "files in S3 in Spark's way"),
        ({"sink": {"format": "delta", "path": "/rows"}}, "delta in Spark's way"),
        ({"sink": {"format": "iceberg", "path": "lake.shop.orders"}}, "iceberg in Spark's way"),
    ],
)
def test_what_a_flow_cannot_do_runs_with_batches_and_is_named(
    changed: dict[str, Any], obstacles: str
) -> None:
    found = choose(**changed)
    assert found.engine is JobEngine.BATCH
    assert str(found) == f"Batch, because a flow cannot do this: {obstacles}"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [({"engine": "Batch"}, ""), ({"transform": {"sql": "SELECT 1"}}, ".*transform.sql")],
)
def test_postgresql_needs_a_flow(changed: dict[str, Any], reason: str) -> None:
    sink = {"format": "postgresql", "options": {"url": "postgresql://db", "table": "rows"}}
    assert choose(sink=sink).engine is JobEngine.FLOW
    with pytest.raises(UsageError, match=f"format postgresql is for engine Flow, .*Batch{reason}"):
        choose(sink=sink, **changed)


def test_a_query_of_duckdb_needs_a_flow() -> None:
    duckdb = {"duckdb": "SELECT body FROM messages"}
    assert choose(transform=duckdb).engine is JobEngine.FLOW
    with pytest.raises(UsageError, match=r"transform\.duckdb is for engine Flow, .*Batch"):
        choose(transform=duckdb, engine="Batch")


@pytest.mark.parametrize("option", ["maxMessagesPerBatch", "maxBytesPerBatch"])
def test_a_limit_for_batches_needs_batches(option: str) -> None:
    found = choose({**SOURCE, option: "1000"})
    assert str(found).endswith("a limit for the messages of a batch")


def test_the_functions_in_the_users_file_decide(tmp_path: Path) -> None:
    file = tmp_path / "part.py"
    file.write_text("def transform(df):\n    return df\n")
    assert str(choose(transform={"file": str(file)})).endswith(
        "transform.file without a function transform_batches"
    )
    file = tmp_path / "both.py"
    file.write_text("def transform(df): ...\ndef transform_batches(batches): ...\n")
    assert choose(transform={"file": str(file)}).engine is JobEngine.FLOW
