"""The journal of a job, written by Spark's own file systems and by Python."""

from pathlib import Path

import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession

from mq_client.errors import UsageError
from spark_jobs.pipeline.checkpoint.journal import (
    KEPT,
    CheckpointState,
    JobJournal,
    JournalTakenError,
    Pending,
)
from spark_jobs.pipeline.checkpoint.stores import (
    MANAGER,
    CheckpointStore,
    HadoopStore,
    LocalStore,
    open_store,
)
from tests.flows import at, wake_up_after_others

STATE = CheckpointState(
    "q", "billing", 1, 0, {"orders": {"broker-a": {"0": 5}}}, [Pending("w", "p")]
)


@pytest.fixture(params=["hadoop", "local"])
def store(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> CheckpointStore:
    if request.param == "local":
        return LocalStore(tmp_path)
    return HadoopStore(spark.sparkContext, f"file://{tmp_path}/")


def test_the_newest_entry_is_what_a_restart_reads(store: CheckpointStore, tmp_path: Path) -> None:
    journal = JobJournal(store)
    assert journal.read_newest() is None
    for number in range(KEPT + 3):
        journal.append(at(number))
    again = JobJournal(store)
    assert again.read_newest() == at(KEPT + 2)
    entries = [each.name for each in (tmp_path / "flow").iterdir() if each.name.isdecimal()]
    assert len(entries) == KEPT, "old entries go"
    again.append(STATE)
    assert JobJournal(store).read_newest() == STATE


def test_of_two_drivers_only_one_writes_an_entry(store: CheckpointStore, tmp_path: Path) -> None:
    one, other = (JobJournal(store) for _ in range(2))
    assert one.read_newest() is other.read_newest() is None
    one.append(at(1))
    with pytest.raises(JournalTakenError, match="another driver uses this checkpoint"):
        other.append(at(2))
    assert JobJournal(store).read_newest() == at(1)


def test_an_entry_that_was_written_though_its_attempt_failed_is_our_own(
    store: CheckpointStore,
) -> None:
    one, other = JobJournal(store), JobJournal(store)
    one.append(at(1))
    one.number = -1  # as after an attempt that wrote, and then failed
    one.append(at(1))
    with pytest.raises(JournalTakenError):
        other.append(at(1))  # with the same text
    one.append(at(2))
    assert JobJournal(store).read_newest() == at(2)


def test_a_driver_that_was_frozen_for_long_finds_its_name_free_and_gets_an_error(
    store: CheckpointStore,
) -> None:
    frozen = wake_up_after_others(store)
    with pytest.raises(JournalTakenError):
        frozen.append(at(1))
    assert "1" not in store.list_names("flow")
    assert JobJournal(store).read_newest() == at(KEPT + 2)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "cannot be read"),
        (b'{"query": "q", "group": "bil', "cannot be read"),
        (b"v1\n{}", "cannot be read"),
        (b'{"query": 5}', "cannot be read"),
        (b'{"query": "q", "group": "g", "epoch": 0, "batch": 0, "offsets": {}, "version": 3}',
         "has version 3"),
    ],
    ids=["empty", "cut", "foreign", "another kind", "newer"],
)  # fmt: skip
def test_an_entry_that_is_not_ours_is_named(
    store: CheckpointStore, tmp_path: Path, text: bytes, error: str
) -> None:
    (tmp_path / "flow").mkdir()
    (tmp_path / "flow/7").write_bytes(text)
    with pytest.raises(UsageError, match=f"flow/7: this entry.*{error}"):
        JobJournal(store).read_newest()


def test_what_lies_between_the_entries_is_ignored(store: CheckpointStore, tmp_path: Path) -> None:
    JobJournal(store).append(at(1))
    for name in (".0.crc", "README", "1.tmp", "-1"):
        (tmp_path / "flow" / name).touch()
    assert JobJournal(store).read_newest() == at(1)


def test_a_full_or_read_only_store_is_an_error_and_leaves_no_entry(
    store: CheckpointStore, tmp_path: Path
) -> None:
    (tmp_path / "flow").touch()  # a file where the folder belongs: nothing can be written
    journal = JobJournal(store)
    with pytest.raises(Exception, match="flow"):
        journal.append(at(0))
    (tmp_path / "flow").unlink()
    journal.append(at(0))
    assert JobJournal(store).read_newest() == at(0)


def test_both_go_on_with_what_the_other_one_has_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    stores: list[CheckpointStore] = [
        HadoopStore(spark.sparkContext, str(tmp_path)),
        LocalStore(tmp_path),
    ]
    for number in range(2 * KEPT):
        journal = JobJournal(stores[number % 2])
        assert journal.read_newest() == (at(number - 1) if number else None)
        journal.append(at(number))
    names = {each.name for each in (tmp_path / "flow").iterdir()}
    entries = {str(number) for number in range(KEPT, 2 * KEPT)}
    assert names <= entries | {f".{name}.crc" for name in entries}


def test_a_folder_that_every_pod_mounts_is_written_without_java(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = spark.sparkContext
    for place in (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}"):
        assert isinstance(open_store(context, place), LocalStore)
    manager = "org.apache.spark.sql.execution.streaming.checkpointing"
    chosen = SparkConf().set(MANAGER, f"{manager}.FileSystemBasedCheckpointFileManager")
    monkeypatch.setattr(type(context), "getConf", lambda _: chosen)
    assert isinstance(open_store(context, str(tmp_path)), HadoopStore), "the user has chosen"
