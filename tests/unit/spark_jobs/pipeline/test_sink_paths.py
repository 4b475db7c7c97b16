"""Whether two paths of sinks lead to the same place."""

from pathlib import Path

import pytest

from mq_client.errors import UsageError
from spark_jobs.pipeline import job
from spark_jobs.pipeline.sink_paths import overlap
from tests.pinned_jobs import described


@pytest.mark.parametrize(
    "other",
    [
        "/data/rows", "/data/rows/", "/data//rows", "/data/x/../rows", "file:/data/rows",
        "file:///data/rows/", "/data/rows/dead", "/data", "/", "//data/rows", "FILE:///data/./rows",
    ],
)  # fmt: skip
def test_places_that_are_one_or_lie_in_each_other_overlap(other: str) -> None:
    assert overlap("/data/rows", other)
    assert overlap(other, "/data/rows")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("s3a://bucket/rows", "s3://bucket/rows/dead", True),
        ("s3a://bucket/rows", "s3a://Bucket//rows", True),
        ("s3a://bucket/rows", "s3a://other/rows", False),
        ("s3a://bucket/rows", "/rows", False),
        ("hdfs://a:8020/rows", "hdfs://a:8020/rows-dead", False),
        ("/data/rows", "/data/rows-dead", False),
        ("/data/rows", "/data/dead", False),
    ],
)
def test_places_of_other_kinds_are_told_apart(one: str, other: str, is_same: bool) -> None:
    assert overlap(one, other) is is_same


def test_a_link_leads_to_the_same_place(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "rows")
    assert overlap(f"{tmp_path}/rows", f"file://{tmp_path}/link/dead")


def test_a_job_whose_dead_letters_would_replace_its_rows_is_refused(tmp_path: Path) -> None:
    parts = {
        "sink": {"format": "json", "path": "/data/rows"},
        "deadLetter": {"format": "json", "path": "file:///data/rows/"},
    }
    file = described(tmp_path, **parts)
    with pytest.raises(UsageError, match=r"deadLetter\.path file:///data/rows/ and sink\.path"):
        job.load(file)
