"""Defines the folder that the driver and the tasks of a history share."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from spark_jobs import options
from spark_jobs.options import Reading
from spark_jobs.pipeline.checkpoint.journal import JobJournal
from spark_jobs.pipeline.checkpoint.stores import LocalStore
from spark_jobs.pipeline.flow.link import DriverPlace
from spark_jobs.pipeline.flow.sinks.files import FileSink
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.separate import SeparateSinks

COMMIT_SECONDS = 0.1
"""The time is short, so that many processes are killed during a commit."""


class Plan(msgspec.Struct, frozen=True):
    """An assignment, and the executors in its slots."""

    epoch: int
    owners: list[tuple[str, int, str]]
    """Broker, id and slot of each queue."""
    executors: dict[str, str]
    """The executor in each slot."""


class Listening(msgspec.Struct, frozen=True):
    """Where a driver listens, and what its tasks must know about it."""

    place: DriverPlace
    query: str
    term: int


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
    def journal(self) -> JobJournal:
        return JobJournal(LocalStore(self.folder / "checkpoint"))

    def make_reading(self) -> Reading:
        given = {
            "nameServers": self.name_server, "topics": self.topic, "group": self.group,
            "startFrom": "earliest",
        }  # fmt: skip
        return options.parse_reading(given, is_stream=True)

    def make_sinks(self, query: str, term: int) -> SeparateSinks:
        return SeparateSinks(FileSink(SinkFolders(str(self.rows), query, term), "json"))

    def put(self, name: str, what: msgspec.Struct) -> None:
        """Replace a file atomically."""
        written = self.folder / f"{name}.new"
        written.write_bytes(msgspec.json.encode(what))
        written.rename(self.folder / name)

    def read_plan(self) -> Plan:
        return msgspec.json.decode((self.folder / "plan").read_bytes(), type=Plan)

    def find_driver(self, number: int) -> Listening | None:
        """Find where a driver listens; None if it does not listen yet."""
        try:
            text = (self.folder / f"driver-{number}").read_bytes()
        except FileNotFoundError:
            return None
        return msgspec.json.decode(text, type=Listening)


def list_bodies(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"body": batch["body"].cast(pa.string())})
