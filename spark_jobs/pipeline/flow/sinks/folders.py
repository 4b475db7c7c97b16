"""
The folders of a file sink: a task writes a hidden one, and the driver moves it into its place.

    PATH/query=ID/_writing-TERM/SESSION-NUMBER/  hidden: Spark and others ignore names with `_`
    PATH/query=ID/batch=NUMBER/                  seen, complete, and never changed again

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
from spark_jobs.pipeline.flow.stores import find_local, sync_folder

HIDDEN = "_writing"


class FolderTakenError(UsageError):
    """The place of a folder is taken. A retry does not help."""


class SinkFolders:
    """The folders below the path of one job's sink."""

    def __init__(self, path: str, query: str, term: int) -> None:
        """
        Touch nothing yet. The path must be a folder that the driver and all tasks share.

        Each driver has a higher `term` than those before it.
        """
        local = find_local(path)
        assert local is not None, "checked by `choosing.list_obstacles`"
        self._root = local / f"query={query}"
        self._term = term

    def name_hidden(self, session: str, number: int) -> Path:
        """Name the folder that a task writes."""
        return self._hidden / f"{session}-{number}"

    def plan_move(self, written: str, batch: int) -> Pending:
        """Say where a folder will be seen."""
        return Pending(written, str(self._root / f"batch={batch}"))

    def delete(self, batch: int) -> None:
        """Delete the folder of a batch, if there is one."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._root / f"batch={batch}")

    def clean(self) -> None:
        """
        Delete what no commit names: call it after the moves, and before tasks begin.

        A driver that was frozen before this line must not delete what newer ones write.
        """
        for each in self._root.glob(f"{HIDDEN}*"):
            term = each.name.removeprefix(HIDDEN).removeprefix("-")
            if not term or (term.isdecimal() and int(term) < self._term):
                shutil.rmtree(each, ignore_errors=True)
        with contextlib.suppress(OSError):  # tasks will say what is wrong with it
            self._hidden.mkdir(parents=True, exist_ok=True)

    @property
    def _hidden(self) -> Path:
        return self._root / f"{HIDDEN}-{self._term}"


def move(pending: Pending) -> None:
    """Move a folder into its place, unless that was done before."""
    place = Path(pending.place)
    try:
        _rename(pending)
        sync_folder(place.parent)  # the next entry of the journal does not name it any more
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
