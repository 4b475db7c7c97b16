"""A driver or a task dies at a step of a commit, and every message is there exactly once."""

from pathlib import Path

import pyarrow.fs
import pytest

from tests.file_flows import COMMITS, DRIVER_STEPS, TASK_STEPS, FilesPlace, play


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("step", DRIVER_STEPS + TASK_STEPS)
def test_every_message_is_seen_once_whoever_dies_at_any_step_of_a_commit(
    tmp_path: Path, step: str, commit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path)
    play(FilesPlace(path, {}, pyarrow.fs.LocalFileSystem(), path), step, commit, monkeypatch)
