"""
How a job hears who reads what, and says how far it is.

`InFiles` follows a file that somebody else writes, and writes a report beside it. Both are replaced
whole, so that nobody reads half of one.
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
    """Which slot reads which queues, by the plan of this number."""

    epoch: int
    slots: tuple[str, ...]
    """All of them, also those without a queue."""
    owners: Mapping[MessageQueue, str] = field(default_factory=dict)
    drained: frozenset[str] = frozenset()
    """Pods whose executors are to be replaced; where there are no pods, the executors' ids."""


log = logging.getLogger("evenkeel.job")
NOBODYS = JobAssignment(0, ())


class Assignments(Protocol):
    """A way to hear and to report."""

    def latest(self) -> JobAssignment:
        """Tell the newest assignment; `NOBODYS` before there is one."""

    def report(self, report: BareReport) -> None:
        """Say how far the job is."""

    def confirm(self) -> None:
        """Return only if no other driver has taken over; asked before what cannot be undone."""


class InFiles:
    """Follows one file, and writes another."""

    def __init__(self, path: str | Path, report: str | Path) -> None:
        """Read nothing yet."""
        self._path = Path(path)
        self._report = Path(report)
        self._last = NOBODYS
        self._stamp: tuple[int, int] | None = None
        self._written = b""

    def latest(self) -> JobAssignment:
        """Read the file if it is another one than last time. An older epoch is an error."""
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
        """Replace the report, if it says something new."""
        text = msgspec.json.encode(report)
        if text == self._written:
            return
        try:
            replace_file(self._report, text)
        except OSError as error:
            log.error("the report cannot be written: %s", error)  # the job need not end for it
        self._written = text

    def confirm(self) -> None:
        """Trust whoever starts drivers: a file keeps no other one away."""


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that readers see whole, or not at all."""
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
