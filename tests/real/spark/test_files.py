"""The files of a sink when batches run again, and when paths are not shared."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from contract.job_file import JobSink
from spark_jobs.pipeline.batch.files import Files
from spark_jobs.pipeline.batch.writing import BatchWriter
from spark_jobs.pipeline.checkpoint.plans import BatchName
from spark_jobs.pipeline.failures import FilesMissingError
from spark_jobs.pipeline.lease import LeaseLostError
from spark_jobs.pipeline.users_part import UsersPart


class Asked:
    """Counts how often a write asks whether the driver has its Lease. The answer can be no."""

    def __init__(self, *, leads: bool = True) -> None:
        self.times = 0
        self._leads = leads

    def __call__(self) -> None:
        self.times += 1
        if not self._leads:
            raise LeaseLostError("no more")


@pytest.fixture
def numbers(spark: SparkSession) -> DataFrame:
    """Six rows in three partitions, one of which is empty."""
    return spark.range(0, 9, 1, 3).where("id < 3 OR id > 5")


def read(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(row.id for row in spark.read.json(str(folder / "query=q" / "batch=1")).collect())


NAME = BatchName("q", 1)


def files(folder: Path, asked: Asked | None = None) -> Files:
    return Files(JobSink(format="json", path=str(folder)), asked or Asked())


def test_a_batch_that_runs_again_replaces_its_files_once_its_driver_is_sure_to_lead(
    spark: SparkSession, numbers: DataFrame, tmp_path: Path
) -> None:
    asked = Asked()
    write = files(tmp_path, asked)
    write(numbers, NAME)
    assert asked.times == 0
    write(numbers.where("id > 1"), NAME)
    assert asked.times == 1
    assert read(spark, tmp_path) == [2, 6, 7, 8]


def test_a_driver_that_leads_no_more_leaves_what_its_successor_has_written(
    spark: SparkSession, numbers: DataFrame, tmp_path: Path
) -> None:
    files(tmp_path)(numbers, NAME)
    with pytest.raises(LeaseLostError):
        files(tmp_path, Asked(leads=False))(numbers.where("false"), NAME)
    assert read(spark, tmp_path) == [0, 1, 2, 6, 7, 8]


def test_files_that_the_driver_does_not_see_are_an_error(
    numbers: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens if each pod has its own folder: the driver then finds an empty folder."""
    write = files(tmp_path / "rows")
    monkeypatch.setattr(Files, "_list_folder", lambda *_: None)
    with pytest.raises(
        FilesMissingError, match=r"wrote [23] files of batch 1, and the driver sees 0"
    ):
        write(numbers, NAME)


def test_dead_letters_that_replace_rows_by_another_name_are_an_error(
    numbers: DataFrame, tmp_path: Path
) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "link").symlink_to("rows")
    sinks = files(tmp_path / "rows"), files(tmp_path / "link")
    users = UsersPart(lambda rows: rows.selectExpr("id", "IF(id > 5, 'no', NULL) _error"), *sinks,
                      is_once=True)  # fmt: skip
    with pytest.raises(
        FilesMissingError, match="the dead letters have replaced 1 files of the sink"
    ):
        BatchWriter(users, NAME, lambda: None).write(numbers)


def test_rows_of_a_transform_and_messages_that_cannot_be_read_are_buried_together(
    spark: SparkSession, numbers: DataFrame, tmp_path: Path
) -> None:
    sinks = files(tmp_path / "rows"), files(tmp_path / "dead")
    users = UsersPart(lambda rows: rows.selectExpr("id", "IF(id > 7, 'no', NULL) _error"), *sinks,
                      is_once=True)  # fmt: skip
    broken = spark.sql("SELECT 'orders' topic, 'x' id, 'it is broken' _error")
    BatchWriter(users, NAME, lambda: broken).write(numbers)
    assert read(spark, tmp_path / "rows") == [0, 1, 2, 6, 7]
    dead = spark.read.json(f"{tmp_path}/dead/query=q/batch=1")
    found = {tuple(row) for row in dead.select("id", "_id", "topic", "_error").collect()}
    assert found == {(8, None, None, "no"), (None, "x", "orders", "it is broken")}


def test_dead_letters_of_an_earlier_attempt_are_removed_only_if_the_batch_was_cut(
    numbers: DataFrame, tmp_path: Path
) -> None:
    dead = files(tmp_path / "dead")
    users = UsersPart(lambda rows: rows, files(tmp_path / "rows"), dead, is_once=True)
    dead(numbers, NAME)
    for is_cut in (False, True):
        BatchWriter(users, NAME, lambda: None, replaces_all=is_cut).write(numbers)
        assert bool(dead.list_files(numbers.sparkSession, NAME)) is not is_cut
