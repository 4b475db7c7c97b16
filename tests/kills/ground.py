"""What the driver and the tasks of a history share: a folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from spark_jobs import options
from spark_jobs.options import Reading
from spark_jobs.pipeline.flow.journal import FlowState, JournalTakenError
from spark_jobs.pipeline.flow.link import DriverPlace
from spark_jobs.pipeline.flow.sinks.files import FileFormat, FileSink
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.separate import SeparateSinks

COMMIT_SECONDS = 0.1
"""Short, so that many processes are killed within a commit."""


class Plan(msgspec.Struct, frozen=True):
    """An assignment, and the executors in its slots."""

    epoch: int
    owners: list[tuple[str, int, str]]
    """Broker, id and slot of each queue."""
    executors: dict[str, str]
    """By slot."""


class Ground(msgspec.Struct, frozen=True):
    """Where a history takes place."""

    folder: Path
    name_server: str
    topic: str

    @property
    def group(self) -> str:
        return f"group-of-{self.topic}"

    @property
    def rows(self) -> Path:
        return self.folder / "rows"

    @property
    def journal(self) -> "FolderJournal":
        return FolderJournal(self.folder / "journal")

    def make_reading(self) -> Reading:
        given = {
            "nameServers": self.name_server, "topics": self.topic, "group": self.group,
            "startFrom": "earliest",
        }  # fmt: skip
        return options.parse_reading(given, is_stream=True)

    def make_sinks(self, query: str) -> SeparateSinks:
        return SeparateSinks(FileSink(SinkFolders(str(self.rows), query), FileFormat("json")))

    def put(self, name: str, what: msgspec.Struct) -> None:
        """Replace a file as a whole."""
        written = self.folder / f"{name}.new"
        written.write_bytes(msgspec.json.encode(what))
        written.rename(self.folder / name)

    def read_plan(self) -> Plan:
        return msgspec.json.decode((self.folder / "plan").read_bytes(), type=Plan)

    def find_place(self, number: int) -> tuple[DriverPlace, str] | None:
        """Find where a driver listens, and its query; None before it does."""
        try:
            text = (self.folder / f"place-{number}").read_bytes()
        except FileNotFoundError:
            return None
        return msgspec.json.decode(text, type=tuple[DriverPlace, str])


class FolderJournal:
    """A journal of files, each given its name once. The real one needs Spark's Java."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.number = -1

    def append(self, state: FlowState) -> None:
        number = self.number + 1
        written = self.folder / f"{os.getpid()}.new"
        written.write_bytes(msgspec.json.encode(state))
        try:
            os.link(written, self.folder / str(number))  # unlike a rename, it replaces nothing
        except FileExistsError as error:
            raise JournalTakenError(f"{number} exists already") from error
        self.number = number

    def read_newest(self) -> FlowState | None:
        numbers = self.list_numbers("flow")
        if not numbers:
            return None
        self.number = max(numbers)
        text = (self.folder / str(self.number)).read_bytes()
        return msgspec.json.decode(text, type=FlowState)

    def list_numbers(self, folder: str) -> list[int]:
        if folder != "flow":
            return []  # no job with batches was here
        return [int(each.name) for each in self.folder.iterdir() if each.name.isdecimal()]

    def move(self, name: str, folder: str) -> None:
        """There is nothing of a job with batches."""


def list_bodies(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"body": batch["body"].cast(pa.string())})
