"""What a flow can run is checked before Spark starts."""

from pathlib import Path
from typing import Any

import pytest

from mq_client.errors import UsageError
from spark_jobs import options
from spark_jobs.pipeline.failures import UsersPartError
from spark_jobs.pipeline.flow import users
from spark_jobs.pipeline.flow.duckdb_query import DuckDbQuery
from spark_jobs.pipeline.flow.sinks.kinds import Written
from tests.pinned_jobs import make_job_file

READING = options.parse_reading({"nameServers": "n:1", "topics": "orders"}, is_stream=True)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"transform": {"sql": "SELECT 1"}}, "transform.sql"),
        ({"lanes": 2}, "lanes"),
        ({"deadLetter": {"format": "orc", "path": "/bad"}}, "deadLetter.format orc"),
        ({"sink": {"format": "json"}}, "sink without a path"),
        ({"sink": {"format": "orc", "path": "/rows"}}, "sink.format orc"),
        ({"sink": {"format": "json", "path": "hdfs://rows"}}, "sink.path hdfs://rows"),
        (
            {"sink": {"format": "json", "path": "/rows", "options": {"compression": "gzip"}}},
            "sink.options",
        ),
        ({"spark": {"spark.master": "local[2]"}}, r"spark.master local\[2\]"),
        ({"spark": {"spark.master": "local"}}, "spark.master local"),
    ],
)
def test_what_a_flow_cannot_do_is_named_with_what_can(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=f"{named}.*Set engine to Batch"):
        users.read(make_job_file(**changed), READING)


def test_a_group_that_is_balanced_by_message_is_never_told_to_use_batches() -> None:
    terms = {
        "topics": ["orders"], "invisibleSeconds": 60.0, "batch": 32, "mostAttempts": 16,
        "backoffSeconds": 10.0,
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"transform.sql\. .* Use balance Queues"):
        users.read(make_job_file(messages=terms, transform={"sql": "SELECT 1"}), READING)
    with pytest.raises(UsageError, match="a scheduled run of a group with balance Messages"):
        users.read(make_job_file(messages=terms, mode="Scheduled"), READING)


def test_a_job_without_a_function_writes_the_rows_as_they_are() -> None:
    found = users.read(make_job_file(spark={"spark.master": "local-cluster[2,1,1024]"}), READING)
    assert found.function is None
    [move] = found.open_sinks("q", 1).plan_moves(Written("made"), 3)
    assert move.place == "/rows/query=q/batch=3"


def test_a_file_for_batches_has_no_function_for_a_flow(tmp_path: Path) -> None:
    file = tmp_path / "users.py"
    file.write_text("def transform(df):\n    return df\n")
    with pytest.raises(UsersPartError, match="there is no function transform_batches"):
        users.read(make_job_file(transform={"file": str(file)}), READING)


def test_a_query_of_duckdb_is_the_function_and_is_checked() -> None:
    found = users.read(make_job_file(transform={"duckdb": "SELECT body FROM messages"}), READING)
    assert found.function == DuckDbQuery("SELECT body FROM messages")
    with pytest.raises(UsageError, match=r"transform\.duckdb"):
        users.read(make_job_file(transform={"duckdb": "SELECT nothing FROM messages"}), READING)
