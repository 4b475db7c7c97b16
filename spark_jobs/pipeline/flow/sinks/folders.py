"""
The folders of a file sink: a task writes a hidden folder, and the driver moves it to its place.

    PATH/query=ID/_writing/TERM/SESSION-NUMBER/  hidden: Spark and others ignore names with `_`
    PATH/query=ID/batch=NUMBER/                  visible, complete, and never changed again

Paths of folders on this machine have no scheme.
"""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mq_client.errors import UsageError
from spark_jobs.pipeline import sink_paths
from spark_jobs.pipeline.checkpoint.journal import Pending
from spark_jobs.pipeline.checkpoint.stores import find_local
from spark_jobs.pipeline.failures import FilesMissingError
from spark_jobs.pipeline.flow.sinks.local_files import LocalFiles
from spark_jobs.pipeline.flow.sinks.s3_files import S3Files, is_s3

log = logging.getLogger("evenkeel.job")
HIDDEN = "_writing"


class FolderTakenError(UsageError):
    """The place of a folder is taken. A retry does not help."""


@dataclass(frozen=True, slots=True)
class SinkFolders:
    """
    The folders below the path of a job's sink. The driver and all tasks must reach this path.

    Each driver has a higher `term` than the drivers before it.
    """

    path: str
    query: str
    term: int
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """How to reach the path, if it is not on this machine."""

    @property
    def files(self) -> LocalFiles | S3Files:
        """What reads and writes files at the path."""
        return S3Files(self.options) if is_s3(self.path) else LocalFiles()

    def name_hidden(self, session: str, number: int) -> str:
        """Name the folder that a task writes."""
        return f"{self._hidden}/{self.term}/{session}-{number}"

    def plan_move(self, written: str, batch: int) -> Pending:
        """Plan the move of a hidden folder to the place where it becomes visible."""
        return Pending(written, f"{self._root}/batch={batch}")

    def delete(self, batch: int) -> None:
        """Delete the folder of a batch, if there is one."""
        self.files.delete(f"{self._root}/batch={batch}")

    def clean(self) -> None:
        """
        Delete the hidden folders of earlier drivers, which no commit names.

        Call it after the moves, and before tasks begin. A driver that was frozen before this call
        must not delete what newer drivers write.
        """
        with _continue_later():
            for name in self.files.list_folders(self._hidden):
                # A name that is not a number is from an older image, which had no terms.
                if not name.isdecimal() or int(name) < self.term:
                    with _continue_later():
                        self.files.delete(f"{self._hidden}/{name}")

    @property
    def _root(self) -> str:
        return f"{find_local(self.path) or self.path.rstrip('/')}/query={self.query}"

    @property
    def _hidden(self) -> str:
        return f"{self._root}/{HIDDEN}"


def move(pending: Pending, known: Sequence[SinkFolders]) -> None:
    """Move a folder to its place, unless it was moved before."""
    try:
        _move(pending, known)
    except FileNotFoundError as error:
        if not _find_files(pending.place, known).exists(pending.place):
            raise FilesMissingError(
                f"{pending.written} and {pending.place} are both missing, though a task has "
                "written one of them. Does each pod have its own folder there, or another store? "
                "Use a path that the driver and all executors share"
            ) from error


def finish_moves(pending: Iterable[Pending], known: Sequence[SinkFolders]) -> None:
    """
    Move the folders that an earlier driver has not moved.

    A missing folder was moved already. It may even have been removed from its place later.
    """
    for each in pending:
        with contextlib.suppress(FileNotFoundError):
            _move(each, known)


def drop(written: str, known: Sequence[SinkFolders]) -> None:
    """Delete a hidden folder whose commit was refused. After a failure, the next driver does it."""
    with contextlib.suppress(OSError):
        _find_files(written, known).delete(written)


def _move(pending: Pending, known: Sequence[SinkFolders]) -> None:
    try:
        _find_files(pending.place, known).move(pending.written, pending.place)
    except FileExistsError as error:
        raise FolderTakenError(
            f"{pending.place} exists already, with other rows: the checkpoint is older than the "
            "files of the sink. Move the folders with this number and higher ones elsewhere, or "
            "choose another checkpoint"
        ) from error


def _find_files(path: str, known: Sequence[SinkFolders]) -> LocalFiles | S3Files:
    """Find the object that reads and writes a path, which may belong to an earlier sink."""
    if not is_s3(path):
        return LocalFiles()
    for each in known:
        if sink_paths.overlap(each.path, path):
            return each.files
    raise UsageError(
        f"the last commit has written {path}, and no sink of the job reaches that any more. "
        "Start the job once more with the sink and the engine that it had, so that its files are "
        "finished"
    )


@contextlib.contextmanager
def _continue_later() -> Iterator[None]:
    """Ignore a failed deletion: the next driver tries again."""
    try:
        yield
    except OSError as error:
        log.warning("what no commit names cannot be deleted: %s", error)
