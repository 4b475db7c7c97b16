"""
The journal of a job: where each queue is read next, at the checkpoint's location.

Each entry is a small file with the whole state, so the newest entry is all that a restart needs.
A file is complete or absent, and is never replaced (`stores`). So of two drivers that write an
entry of the same number, one gets an error, and ends.

What each crash point of a flow leaves, and what the next driver does (the table of batches is in
`plans.py`):

| The driver dies | It leaves | The next driver |
|---|---|---|
| before the entry is written | folders without an entry | takes the journal, and deletes them |
| before all folders are moved | an entry with `pending` | moves those that are not moved yet |
| before the tasks know | an entry with `pending` | finds no folder to move |
"""

import logging
import uuid

import msgspec
from py4j.protocol import Py4JError

from contract.following import UNREADABLE
from mq_client.errors import UsageError
from spark_jobs.journal import Row, Tree
from spark_jobs.pipeline.checkpoint.stores import CheckpointStore

log = logging.getLogger("evenkeel.job")
VERSION = 2
"""The newest version of an entry. One of version 1 has no inactive topics and no planned batch."""
FOLDER = "flow"
"""The journal's folder. Flows had a journal first, so images of that time look for this name."""
KEPT = 10
"""How many entries are kept, for people who want to look back."""


class Pending(msgspec.Struct, frozen=True):
    """A folder with the rows of one commit, and the place where it will be seen."""

    written: str
    place: str


class PlannedBatch(msgspec.Struct, frozen=True):
    """A batch that may have written rows, and is not committed."""

    number: int
    epoch: int
    skip: str
    """The last value of `skip` that is carried out once this batch is committed."""
    filter: dict[str, str]
    ranges: list[Row]
    turned_back: list[str] = []
    """
    Descriptions of the queues that the job has dropped, or reads again from an earlier offset,
    because of losses that this batch skips on request.
    """
    lane: int = 0
    """The number of the lane for which the batch was planned."""
    is_cut: bool = False
    """Whether the batch was planned with more queues, and may have written their rows."""


class CheckpointState(msgspec.Struct, frozen=True):
    """The state of a job after a number of commits."""

    query: str
    """A random id of this journal. It is part of the paths of all files."""
    group: str
    epoch: int
    """The epoch that was adopted last."""
    batch: int
    """
    The highest number of a committed batch, or of a flow's commit with rows; -1 before the first.
    """
    offsets: Tree
    pending: list[Pending] = []
    skip: str = ""
    """The last value of `skip` that was carried out."""
    aside: Tree = {}
    """Where batches have stopped in topics that they do not read any more."""
    planned: list[PlannedBatch] = []
    """
    Batches that may have written rows, and are not committed. No two of them read the same queue.
    """


class JournalEntry(CheckpointState, frozen=True, kw_only=True):
    """A state as it is written."""

    writer: str
    """A random id of the driver: it tells its own entries from equal ones of others."""
    version: int
    """The oldest version whose images understand the entry."""


class _Header(msgspec.Struct):
    """What every entry has, whatever its version."""

    version: int


class JournalTakenError(Exception):
    """Another driver has written the entry that this driver wanted to write."""


class JobJournal:
    """Reads and writes the entries."""

    def __init__(self, store: CheckpointStore) -> None:
        """Touch nothing yet."""
        self._store = store
        self._writer = uuid.uuid4().hex
        self.number = -1
        """The number of the newest entry; -1 before the first."""

    def read_newest(self) -> CheckpointState | None:
        """Read the newest entry; None if there is none."""
        numbers = self.list_numbers(FOLDER)
        if not numbers:
            return None
        self.number = max(numbers)
        where = f"{self._store.location}/{_name_entry(self.number)}"
        text = self.read(_name_entry(self.number))
        try:
            version = msgspec.json.decode(text, type=_Header).version
            if version <= VERSION:
                return msgspec.json.decode(text, type=CheckpointState)
        except UNREADABLE as error:
            raise UsageError(
                f"{where}: this entry of the journal cannot be read: {error}. Without it nobody "
                "knows what was written last: restore the file, or choose another checkpoint"
            ) from error
        raise UsageError(
            f"{where}: this entry has version {version}, and this image knows none above "
            f"{VERSION}: use the image that has written it"
        )

    def append(self, state: CheckpointState) -> None:
        """Write the next entry, and remove an old one."""
        number = self.number + 1
        name = _name_entry(number)
        version = VERSION if state.aside or state.planned else 1
        entry = JournalEntry(**msgspec.structs.asdict(state), writer=self._writer, version=version)
        text = msgspec.json.encode(entry)
        taken = JournalTakenError(
            f"{self._store.location}/{name} is not ours: another driver uses this checkpoint"
        )
        if number == 0:
            self._store.make_folder(FOLDER)
        try:
            self._store.create(name, text)
        except FileExistsError as error:
            # An earlier attempt of ours may have written it, and have failed after that.
            if self.read(name) != text:
                raise taken from error
        if max(self.list_numbers(FOLDER), default=number) > number:
            # Old entries are removed, so a driver that was frozen for long may find its name free.
            self._store.delete(name)
            raise taken
        self.number = number
        if number >= KEPT:
            self._delete(number - KEPT)

    def _delete(self, number: int) -> None:
        try:
            self._store.delete(_name_entry(number))
        except (OSError, Py4JError) as error:
            log.warning("an old entry of the journal cannot be deleted: %s", error)

    def list_numbers(self, folder: str) -> list[int]:
        """List the files in a folder of the checkpoint whose names are numbers."""
        names = self._store.list_names(folder)
        return [int(name) for name in names if name.isascii() and name.isdecimal()]

    def read(self, name: str) -> bytes:
        """Read a file of the checkpoint."""
        return self._store.read(name)

    def move(self, name: str, folder: str) -> None:
        """Move a file or folder of the checkpoint into one of its folders, if it exists."""
        self._store.move(name, folder)


def _name_entry(number: int) -> str:
    return f"{FOLDER}/{number}"
