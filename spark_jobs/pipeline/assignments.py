"""
Defines how a job receives its assignment, and how it reports.

`FileAssignments` reads the assignment from a file that another process writes. It writes the report
to a second file. Both files are replaced as a whole, so no reader sees a half-written file.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from contract.assignment import AssignmentFile
from contract.report import BareReport
from lb_core.assignment import parse_ids
from lb_core.errors import AllocationError
from mq_client.errors import UsageError
from mq_client.values import MessageQueue


@dataclass(frozen=True, slots=True)
class JobAssignment:
    """Which slot reads which queues, in the plan with this epoch."""

    epoch: int
    slots: tuple[str, ...]
    """All slots, including those without a queue."""
    owners: Mapping[MessageQueue, str] = field(default_factory=dict)
    drained: frozenset[str] = frozenset()
    """Pods whose executors must be replaced; executor ids if executors are not pods."""


log = logging.getLogger("evenkeel.job")
NO_ASSIGNMENT = JobAssignment(0, ())


class Assignments(Protocol):
    """A way to receive assignments and to report."""

    def read_latest(self) -> JobAssignment:
        """Read the newest assignment; return `NO_ASSIGNMENT` if none was published yet."""

    def report(self, report: BareReport) -> None:
        """Write the report."""

    def confirm(self) -> None:
        """Return only if no other driver has taken over. Call this before irreversible steps."""


class FileAssignments:
    """Reads assignments from one file, and writes reports to another."""

    def __init__(self, path: str | Path, report: str | Path) -> None:
        """Read nothing yet."""
        self._path = Path(path)
        self._report = Path(report)
        self._last = NO_ASSIGNMENT
        self._stamp: tuple[int, int] | None = None
        self._written = b""

    def read_latest(self) -> JobAssignment:
        """Read the file if it has changed. An older epoch is an error."""
        try:
            facts = self._path.stat()
        except FileNotFoundError:
            return self._last
        except OSError as error:
            raise UsageError(f"the assignment cannot be read: {error}") from error
        stamp = (facts.st_mtime_ns, facts.st_ino)
        if stamp != self._stamp:
            found = _read(self._path)
            if found.epoch < self._last.epoch:
                raise UsageError(
                    f"{self._path}: epoch {found.epoch} is older than {self._last.epoch}, "
                    "which was adopted; the assignment stays as it is"
                )
            self._last, self._stamp = found, stamp
        return self._last

    def report(self, report: BareReport) -> None:
        """Replace the report, if it has changed."""
        text = msgspec.json.encode(report)
        if text == self._written:
            return
        try:
            replace_file(self._report, text)
        except OSError as error:
            log.error("the report cannot be written: %s", error)  # no reason to end the job
        self._written = text

    def confirm(self) -> None:
        """Return at once. With files, the program that starts drivers must start only one."""


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file atomically: readers see the old or the new content."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)


def _read(path: Path) -> JobAssignment:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=AssignmentFile)
        owners = {
            MessageQueue(part.topic, part.broker, number): share.consumer
            for share in found.assignments
            for part in share.queues
            for piece in parse_ids(part.topic, part.broker, part.ids)
            for number in range(piece.start, piece.stop)
        }
    except (OSError, ValueError, AllocationError) as error:
        raise UsageError(f"{path}: {error}") from error
    slots = tuple(share.consumer for share in found.assignments)
    return JobAssignment(found.epoch, slots, owners, frozenset(found.drain))
