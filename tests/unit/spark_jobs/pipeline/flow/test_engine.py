"""What a flow can run is checked before Spark starts."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from contract import job_file
from mq_client.errors import UsageError
from spark_jobs.pipeline.flow import engine
from spark_jobs.pipeline.users_part import UsersPartError


def read(**changed: Any) -> engine.FlowPart:
    parts = {
        "name": "billing",
        "source": {},
        "assignments": "a",
        "report": "r",
        "checkpoint": "c",
        "sink": {"format": "json", "path": "/rows"},
        **changed,
    }
    return engine.read_users_part(job_file.decode(msgspec.json.encode(parts)))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"mode": "Scheduled"}, "mode Scheduled"),
        ({"transform": {"sql": "SELECT 1"}}, "transform.sql"),
        ({"deadLetter": {"file": "sink.py"}}, "deadLetter.file"),
        ({"deadLetter": {"format": "orc", "path": "/bad"}}, "deadLetter.format orc"),
        ({"sink": {"file": "sink.py"}}, "sink.file"),
        ({"sink": {"format": "console"}}, "sink has no path"),
        ({"sink": {"format": "delta", "path": "/rows"}}, "sink.format delta"),
        ({"sink": {"format": "json", "path": "s3a://rows"}}, "sink.path s3a://rows"),
        ({"spark": {"spark.master": "local[2]"}}, r"spark.master local\[2\]"),
        ({"spark": {"spark.master": "local"}}, "spark.master local"),
    ],
)
def test_what_a_flow_cannot_do_is_named_with_what_can(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=f"{named}.*set engine to Batch"):
        read(**changed)


def test_a_job_without_a_function_writes_the_rows_as_they_are() -> None:
    found = read(spark={"spark.master": "local-cluster[2,1,1024]"})
    assert (found.function, found.sink.path, found.sink.format.name) == (None, "/rows", "json")
    assert found.dead is None


def test_a_file_for_batches_has_no_function_for_a_flow(tmp_path: Path) -> None:
    file = tmp_path / "users.py"
    file.write_text("def transform(df):\n    return df\n")
    with pytest.raises(UsersPartError, match="there is no function transform_batches"):
        read(transform={"file": str(file)})
