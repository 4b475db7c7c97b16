"""
The folders of a file sink: a task writes a hidden one, and the driver moves it into its place.

    PATH/query=ID/_writing/SESSION-NUMBER/     hidden: Spark and others ignore names with `_`
    PATH/query=ID/batch=NUMBER/                seen, complete, and never changed again

A move is one step of the file system, so a reader sees all rows of a commit or none.
"""

import contextlib
import errno
import shutil
from collections.abc import Iterable
from pathlib import Path

from mq_client.errors import UsageError
from spark_jobs.pipeline.files import FilesMissingError
from spark_jobs.pipeline.flow.journal import Pending
from spark_jobs.pipeline.flow.stores import find_local

HIDDEN = "_writing"


class FolderTakenError(UsageError):
    """The place of a folder is taken. A retry does not help."""


class SinkFolders:
    """The folders below the path of one job's sink."""

    def __init__(self, path: str, query: str) -> None:
        """Touch nothing yet. The path must be a folder that the driver and all tasks share."""
        local = find_local(path)
        assert local is not None, "checked by `choosing.list_obstacles`"
        self._root = local / f"query={query}"

    def name_hidden(self, session: str, number: int) -> Path:
        """Name the folder that a task writes."""
        return self._root / HIDDEN / f"{session}-{number}"

    def plan_move(self, written: str, batch: int) -> Pending:
        """Say where a folder will be seen."""
        return Pending(written, str(self._root / f"batch={batch}"))

    def delete(self, batch: int) -> None:
        """Delete the folder of a batch, if there is one."""
        shutil.rmtree(self._root / f"batch={batch}", ignore_errors=True)

    def clean(self) -> None:
        """Delete what no commit names: call it after the moves, and before tasks begin."""
        shutil.rmtree(self._root / HIDDEN, ignore_errors=True)


def move(pending: Pending) -> None:
    """Move a folder into its place, unless that was done before."""
    place = Path(pending.place)
    try:
        _rename(pending)
    except FileNotFoundError as error:
        if not place.exists():
            raise FilesMissingError(
                f"{pending.written} and {place} are both missing, though a task has written one "
                "of them. Does each pod have its own folder there? Use a path that the driver and "
                "all executors share"
            ) from error


def finish_moves(pending: Iterable[Pending]) -> None:
    """
    Move the folders that a driver before this one has not moved.

    A folder that is missing was moved. Somebody may have taken it from its place since.
    """
    for each in pending:
        with contextlib.suppress(FileNotFoundError):
            _rename(each)


def _rename(pending: Pending) -> None:
    try:
        Path(pending.written).rename(pending.place)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise FolderTakenError(
            f"{pending.place} exists already, with other rows: the checkpoint is older than the "
            "files of the sink. Move the folders with this number and higher ones elsewhere, or "
            "choose another checkpoint"
        ) from error
