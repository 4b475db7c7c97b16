"""
The journal of a flow: where each queue is read next, at the checkpoint's location.

Each entry is a small file with the whole state, so the newest entry is all that a restart needs.
A file is complete or absent, and a name is never given twice (`stores`). So of two drivers that
write an entry of the same number, one gets an error, and ends.

What each crash point leaves, and what the next driver does:

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
from spark_jobs.journal import Tree
from spark_jobs.pipeline.flow.stores import CheckpointStore

log = logging.getLogger("evenkeel.job")
VERSION = 1
FOLDER = "flow"
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


class JournalEntry(FlowState, frozen=True, kw_only=True):
    """A state as it is written."""

    writer: str
    """A random id of the driver: it tells its own entries from equal ones of others."""


class JournalTakenError(Exception):
    """Another driver has written the entry that this driver wanted to write."""


class FlowJournal:
    """Reads and writes the entries."""

    def __init__(self, store: CheckpointStore) -> None:
        """Touch nothing yet."""
        self._store = store
        self._writer = uuid.uuid4().hex
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
        where = f"{self._store.location}/{_name_entry(self.number)}"
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
        name = _name_entry(number)
        entry = JournalEntry(**msgspec.structs.asdict(state), writer=self._writer)
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
