"""Files of a flow in a bucket: readers see each row once, even if a process or the store fails."""

from collections.abc import Callable, Sequence

import pyarrow.fs
import pytest

from mq_client.errors import UsageError
from sandbox.s3 import S3Server
from spark_jobs.pipeline.checkpoint.journal import Pending
from spark_jobs.pipeline.flow.sinks.folders import (
    HIDDEN,
    FolderTakenError,
    SinkFolders,
    finish_moves,
    move,
)
from tests.file_flows import DRIVER_STEPS, TASK_STEPS, FilesPlace, play, write


@pytest.fixture(name="system")
def _system(s3_server: S3Server) -> pyarrow.fs.S3FileSystem:
    return pyarrow.fs.S3FileSystem(**s3_server.options)


@pytest.fixture(name="path")
def _path(s3_server: S3Server, unique_name: str) -> str:
    return f"{s3_server.bucket}/{unique_name}"


@pytest.fixture(name="make")
def _make(s3_server: S3Server, path: str) -> Callable[[int], SinkFolders]:
    """Make the folders that the driver with this term uses."""
    return lambda term: SinkFolders(f"s3://{path}", "q", term, s3_server.options)


def read(system: pyarrow.fs.S3FileSystem, path: str) -> dict[str, bytes]:
    """Read all files of a folder that have rows, including hidden files."""
    selector = pyarrow.fs.FileSelector(path, recursive=True)
    found = [each.path for each in system.get_file_info(selector) if "part-" in each.base_name]
    return {each.removeprefix(f"{path}/"): system.open_input_file(each).read() for each in found}


SEEN = {"query=q/batch=7/part-0.json": b"1"}


def test_a_move_may_be_repeated_and_leaves_nothing_hidden(
    make: Callable[[int], SinkFolders], system: pyarrow.fs.S3FileSystem, path: str
) -> None:
    folders = make(1)
    pending = folders.plan_move(write(folders, 1), 7)
    for _ in range(2):
        move(pending, [folders])
        assert read(system, path) == SEEN
    finish_moves([pending], [folders])
    assert read(system, path) == SEEN
    assert system.get_file_info(f"{path}/query=q/batch=7/_SUCCESS").is_file


def test_a_driver_that_died_between_copy_and_deletion_is_followed_by_one_that_deletes(
    make: Callable[[int], SinkFolders], system: pyarrow.fs.S3FileSystem, path: str
) -> None:
    folders = make(1)
    pending = folders.plan_move(write(folders, 1), 7)
    copied = (
        f"{each.removeprefix('s3://')}/part-0.json" for each in (pending.written, pending.place)
    )
    system.copy_file(*copied)
    finish_moves([pending], [make(2)])
    assert read(system, path) == SEEN


@pytest.mark.parametrize("act", [move, lambda pending, known: finish_moves([pending], known)])
def test_a_place_that_has_other_rows_is_never_replaced(
    make: Callable[[int], SinkFolders], system: pyarrow.fs.S3FileSystem, path: str,
    act: Callable[[Pending, Sequence[SinkFolders]], None],
) -> None:  # fmt: skip
    folders = make(1)
    move(folders.plan_move(write(folders, 1), 7), [folders])
    later = folders.plan_move(write(folders, 2), 7)
    with pytest.raises(FolderTakenError, match=r"batch=7 exists already, .* choose another check"):
        act(later, [folders])
    assert read(system, path)["query=q/batch=7/part-0.json"] == b"1"


def test_rows_of_a_batch_of_spark_are_never_mixed_with_others(
    make: Callable[[int], SinkFolders], system: pyarrow.fs.S3FileSystem, path: str
) -> None:
    folders = make(1)
    with system.open_output_stream(f"{path}/query=q/batch=7/part-00000-a.json") as file:
        file.write(b"0")
    with pytest.raises(FolderTakenError):
        move(folders.plan_move(write(folders, 1), 7), [folders])
    folders.delete(7)
    move(folders.plan_move(write(folders, 1), 7), [folders])
    folders.delete(8)  # there is none
    assert {name for name in read(system, path) if HIDDEN not in name} == SEEN.keys()


def test_what_no_commit_names_is_deleted(
    make: Callable[[int], SinkFolders], system: pyarrow.fs.S3FileSystem, path: str
) -> None:
    first, second = make(1), make(2)
    move(first.plan_move(write(first, 1), 7), [first])
    write(first, 2)
    second.clean()
    assert read(system, path) == SEEN
    write(second, 1)
    second.clean()
    first.clean()  # this driver was frozen before this line
    assert len(read(system, path)) == len(SEEN) + 1


def test_a_store_that_is_away_is_an_error_that_a_retry_cures(
    s3_server: S3Server,
    make: Callable[[int], SinkFolders],
    system: pyarrow.fs.S3FileSystem,
    path: str,
) -> None:
    folders = make(1)
    pending = folders.plan_move(write(folders, 1), 7)
    s3_server.kill()
    try:
        for step in (lambda: move(pending, [folders]), lambda: write(folders, 2)):
            with pytest.raises(OSError, match=r"rows|part-0"):
                step()
        folders.clean()  # no error here: the tasks will report it
    finally:
        s3_server.start()
    move(pending, [folders])
    assert read(system, path) == SEEN


def test_a_sink_that_was_changed_after_a_crash_must_come_back_once(
    s3_server: S3Server,
    make: Callable[[int], SinkFolders],
    system: pyarrow.fs.S3FileSystem,
    path: str,
) -> None:
    pending = make(1).plan_move(write(make(1), 1), 7)
    others = [SinkFolders("s3://others/rows", "q", 2, s3_server.options)]
    for known in ([], others):
        with pytest.raises(UsageError, match="with the sink and the engine that it had"):
            finish_moves([pending], known)
    same = SinkFolders(f"s3a://{path}/", "q", 2, s3_server.options)
    finish_moves([pending], [*others, same])
    assert read(system, path) == SEEN


def test_a_bucket_that_is_missing_is_no_folder_that_was_moved(s3_server: S3Server) -> None:
    folders = SinkFolders("s3://missing/rows", "q", 1, s3_server.options)
    pending = folders.plan_move(folders.name_hidden("session", 1), 7)
    with pytest.raises(OSError, match="there is no bucket missing"):
        finish_moves([pending], [folders])
    with pytest.raises(OSError, match="there is no bucket missing"):
        folders.delete(7)
    folders.clean()


def test_rows_that_were_copied_before_a_crash_are_marked_as_complete(
    make: Callable[[int], SinkFolders], system: pyarrow.fs.S3FileSystem, path: str
) -> None:
    folders = make(1)
    pending = folders.plan_move(write(folders, 1), 7)
    move(pending, [folders])
    success = f"{path}/query=q/batch=7/_SUCCESS"
    system.delete_file(success)
    finish_moves([pending], [make(2)])
    assert system.get_file_info(success).is_file
    system.delete_dir(f"{path}/query=q/batch=7")  # a reader has taken it
    finish_moves([pending], [make(3)])
    assert read(system, path) == {}


@pytest.mark.parametrize("step", DRIVER_STEPS + TASK_STEPS)
def test_every_message_is_seen_once_whoever_dies_at_any_step_of_a_commit(
    s3_server: S3Server, system: pyarrow.fs.S3FileSystem, path: str, step: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    play(FilesPlace(f"s3://{path}", s3_server.options, system, path), step, 2, monkeypatch)
