"""
The journal of a flow: where each queue is read next, at the checkpoint's location.

Each entry is a small file with the whole state, so the newest entry is all that a restart needs.
Spark's own manager of checkpoint files writes it, on any file system that Spark reaches: a file is
complete or absent, and a name is never given twice. So of two drivers that write an entry of the
same number, one gets an error, and ends.

What each crash point leaves, and what the next driver does:

| The driver dies | It leaves | The next driver |
|---|---|---|
| before the entry is written | folders without an entry | deletes them, and reads again |
| before all folders are moved | an entry with `pending` | moves those that are not moved yet |
| before the tasks know | an entry with `pending` | finds no folder to move |
"""

import logging
from typing import Any

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from contract.following import UNREADABLE
from mq_client.errors import UsageError
from spark_jobs.journal import Tree

log = logging.getLogger("evenkeel.job")
VERSION = 1
FOLDER = "flow"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
"""The setting with which users choose how Spark writes files of checkpoints."""
KEPT = 10
"""How many entries are kept, for people who want to look back."""


class Pending(msgspec.Struct, frozen=True):
    """A folder with the rows of one commit, and the place where it will be seen."""

    written: str
    place: str


class FlowState(msgspec.Struct, frozen=True):
    """The state of a flow after a number of commits."""

    query: str
    """A random id of this journal. It is part of the paths of all files."""
    group: str
    epoch: int
    """The epoch that was adopted last."""
    batch: int
    """The number of the last commit with rows; -1 before the first."""
    offsets: Tree
    pending: list[Pending] = []
    skip: str = ""
    """The last value of `skip` that was carried out."""
    version: int = VERSION


class JournalTakenError(Exception):
    """Another driver has written the entry that this driver wanted to write."""


class FlowJournal:
    """Reads and writes the entries."""

    def __init__(self, context: SparkContext, checkpoint: str) -> None:
        """Touch nothing yet."""
        jvm: Any = context._jvm
        self._jvm = jvm
        self._checkpoint = checkpoint.rstrip("/")
        settings = jvm.org.apache.hadoop.conf.Configuration(context._jsc.hadoopConfiguration())
        if manager := context.getConf().get(MANAGER):
            settings.set(MANAGER, manager)
        managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        self._manager = managers.create(self._make_path(FOLDER), settings)
        self._settings = settings
        self.number = -1
        """The number of the newest entry; -1 before the first."""

    @property
    def is_begun(self) -> bool:
        """Whether a flow has used this location."""
        return bool(self.list_numbers(FOLDER))

    def read_newest(self) -> FlowState | None:
        """Read the newest entry; None if there is none."""
        numbers = self.list_numbers(FOLDER)
        if not numbers:
            return None
        self.number = max(numbers)
        where = f"{self._checkpoint}/{_name_entry(self.number)}"
        try:
            found = msgspec.json.decode(self.read(_name_entry(self.number)), type=FlowState)
        except UNREADABLE as error:
            raise UsageError(
                f"{where}: this entry of the journal cannot be read: {error}. Without it nobody "
                "knows what was written last: restore the file, or choose another checkpoint"
            ) from error
        if found.version != VERSION:
            raise UsageError(
                f"{where}: this entry has version {found.version}, and this image knows only "
                f"{VERSION}: use the image that has written it"
            )
        return found

    def append(self, state: FlowState) -> None:
        """Write the next entry, and remove an old one."""
        number = self.number + 1
        if number == 0:
            self._manager.mkdirs(self._make_path(FOLDER))
        text = msgspec.json.encode(state)
        try:
            self._create(number, text)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" not in str(error.java_exception):
                raise
            # An earlier attempt of ours may have written it, and have failed after that.
            if self.read(_name_entry(number)) != text:
                raise JournalTakenError(
                    f"{self._checkpoint}/{_name_entry(number)} exists already: another driver uses "
                    "this checkpoint"
                ) from error
        self.number = number
        if number >= KEPT:
            self._manager.delete(self._make_entry_path(number - KEPT))

    def list_numbers(self, folder: str) -> list[int]:
        """List the files in a folder of the checkpoint whose names are numbers."""
        path = self._make_path(folder)
        if not self._manager.exists(path):
            return []
        names = [each.getPath().getName() for each in self._manager.list(path)]
        return [int(name) for name in names if name.isascii() and name.isdecimal()]

    def read(self, name: str) -> bytes:
        """Read a file of the checkpoint."""
        stream = self._manager.open(self._make_path(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def move(self, name: str, folder: str) -> None:
        """Move a file or folder of the checkpoint into one of its folders, if it exists."""
        source = self._make_path(name)
        system = source.getFileSystem(self._settings)
        if not system.exists(source):
            return
        system.mkdirs(self._make_path(folder))
        if not system.rename(source, self._make_path(f"{folder}/{name}")):
            raise OSError(f"{self._checkpoint}/{name} cannot be moved to {folder}")

    def _create(self, number: int, text: bytes) -> None:
        stream = self._manager.createAtomic(self._make_entry_path(number), False)
        try:
            stream.write(bytearray(text))
            stream.hsync()
        except BaseException:
            stream.cancel()
            raise
        stream.close()

    def _make_entry_path(self, number: int) -> Any:
        return self._make_path(_name_entry(number))

    def _make_path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._checkpoint}/{name}")


def _name_entry(number: int) -> str:
    return f"{FOLDER}/{number}"
