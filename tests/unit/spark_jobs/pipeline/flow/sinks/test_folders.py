"""Folders of rows are hidden until their commit is in the journal."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from spark_jobs.pipeline.checkpoint.journal import Pending
from spark_jobs.pipeline.failures import FilesMissingError
from spark_jobs.pipeline.flow.sinks.folders import (
    FolderTakenError,
    SinkFolders,
    finish_moves,
    move,
)
from tests.file_flows import write


def test_a_folder_is_seen_once_it_is_moved_and_a_move_may_be_repeated(tmp_path: Path) -> None:
    folders = SinkFolders(str(tmp_path), "q", 1)
    pending = folders.plan_move(write(folders, 1), 7)
    assert not (tmp_path / "query=q/batch=7").exists()
    move(pending, [folders])
    move(pending, [folders])
    assert (tmp_path / "query=q/batch=7/part-0.json").read_text() == "1"


def test_a_folder_that_nobody_has_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    folders = SinkFolders(str(tmp_path), "q", 1)
    with pytest.raises(FilesMissingError, match="driver and all executors share"):
        move(folders.plan_move(folders.name_hidden("session", 1), 7), [folders])


@pytest.mark.parametrize("act", [move, lambda pending, known: finish_moves([pending], known)])
def test_a_place_that_has_other_rows_is_never_replaced(
    tmp_path: Path, act: Callable[[Pending, Sequence[SinkFolders]], None]
) -> None:
    folders = SinkFolders(str(tmp_path), "q", 1)
    move(folders.plan_move(write(folders, 1), 7), [folders])
    later = folders.plan_move(write(folders, 2), 7)
    with pytest.raises(FolderTakenError, match=r"batch=7 exists already, .* choose another check"):
        act(later, [folders])
    assert (tmp_path / "query=q/batch=7/part-0.json").read_text() == "1"


def test_what_no_commit_names_is_deleted(tmp_path: Path) -> None:
    folders = SinkFolders(str(tmp_path), "q", 1)
    move(folders.plan_move(write(folders, 1), 7), [folders])
    left = write(folders, 2)
    older = tmp_path / "query=q/_writing/of-an-older-image"
    older.mkdir(parents=True)
    next_driver = SinkFolders(str(tmp_path), "q", 2)
    next_driver.clean()
    own = write(next_driver, 1)
    next_driver.clean()
    folders.clean()  # this driver was frozen before this line
    kept = [Path(own), tmp_path / "query=q/batch=7"]
    assert [each.exists() for each in (Path(left), older, *kept)] == [False, False, True, True]


def test_a_restart_moves_what_is_left_and_misses_nothing_that_somebody_took(
    tmp_path: Path,
) -> None:
    folders = SinkFolders(str(tmp_path), "q", 1)
    left = folders.plan_move(write(folders, 1), 7)
    taken = folders.plan_move(folders.name_hidden("session", 2), 8)
    finish_moves([taken, left], [folders])
    finish_moves([taken, left], [folders])
    assert [each.name for each in (tmp_path / "query=q").glob("batch=*")] == ["batch=7"]
