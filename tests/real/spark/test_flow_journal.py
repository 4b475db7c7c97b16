"""The journal of a flow, written by Spark's own file systems."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mq_client.errors import UsageError
from spark_jobs.pipeline.flow.journal import (
    KEPT,
    FlowJournal,
    FlowState,
    JournalTakenError,
    Pending,
)

STATE = FlowState("q", "billing", 1, 0, {"orders": {"broker-a": {"0": 5}}}, [Pending("w", "p")])


def at(number: int) -> FlowState:
    """The state after so many commits."""
    return FlowState("q", "billing", 1, number, {"orders": {"broker-a": {"0": number}}})


def test_the_newest_entry_is_what_a_restart_reads(spark: SparkSession, tmp_path: Path) -> None:
    journal = FlowJournal(spark.sparkContext, f"file://{tmp_path}")
    assert journal.read_newest() is None
    for number in range(KEPT + 3):
        journal.append(at(number))
    again = FlowJournal(spark.sparkContext, f"file://{tmp_path}/")
    assert again.read_newest() == at(KEPT + 2)
    entries = [each.name for each in (tmp_path / "flow").iterdir() if each.name.isdecimal()]
    assert len(entries) == KEPT, "old entries go"
    again.append(STATE)
    assert FlowJournal(spark.sparkContext, str(tmp_path)).read_newest() == STATE


def test_of_two_drivers_only_one_writes_an_entry(spark: SparkSession, tmp_path: Path) -> None:
    one, other = (FlowJournal(spark.sparkContext, str(tmp_path)) for _ in range(2))
    assert one.read_newest() is other.read_newest() is None
    one.append(at(1))
    with pytest.raises(JournalTakenError, match="another driver uses this checkpoint"):
        other.append(at(2))
    assert FlowJournal(spark.sparkContext, str(tmp_path)).read_newest() == at(1)


def test_an_entry_that_was_written_though_its_attempt_failed_is_our_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, again = (FlowJournal(spark.sparkContext, str(tmp_path)) for _ in range(2))
    one.append(at(1))
    again.append(at(1))
    again.append(at(2))
    assert FlowJournal(spark.sparkContext, str(tmp_path)).read_newest() == at(2)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "cannot be read"),
        (b'{"query": "q", "group": "bil', "cannot be read"),
        (b"v1\n{}", "cannot be read"),
        (b'{"query": 5}', "cannot be read"),
        (b'{"query": "q", "group": "g", "epoch": 0, "batch": 0, "offsets": {}, "version": 2}',
         "has version 2"),
    ],
    ids=["empty", "cut", "foreign", "another kind", "newer"],
)  # fmt: skip
def test_an_entry_that_is_not_ours_is_named(
    spark: SparkSession, tmp_path: Path, text: bytes, error: str
) -> None:
    (tmp_path / "flow").mkdir()
    (tmp_path / "flow/7").write_bytes(text)
    with pytest.raises(UsageError, match=f"flow/7: this entry.*{error}"):
        FlowJournal(spark.sparkContext, str(tmp_path)).read_newest()


def test_what_lies_between_the_entries_is_ignored(spark: SparkSession, tmp_path: Path) -> None:
    FlowJournal(spark.sparkContext, str(tmp_path)).append(at(1))
    for name in (".0.crc", "README", "1.tmp", "-1"):
        (tmp_path / "flow" / name).touch()
    assert FlowJournal(spark.sparkContext, str(tmp_path)).read_newest() == at(1)


def test_a_full_or_read_only_store_is_an_error_and_leaves_no_entry(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "flow").touch()  # a file where the folder belongs: nothing can be written
    journal = FlowJournal(spark.sparkContext, str(tmp_path))
    with pytest.raises(Exception, match="flow"):
        journal.append(at(0))
    (tmp_path / "flow").unlink()
    journal.append(at(0))
    assert FlowJournal(spark.sparkContext, str(tmp_path)).read_newest() == at(0)
