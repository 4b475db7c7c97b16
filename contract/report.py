"""The report that a driver writes about itself: to a file, or in a cluster to a ConfigMap."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType


class Filler(msgspec.Struct, frozen=True):
    """An executor that fills a slot."""

    executor: str
    """Spark's id of the executor."""
    host: str = ""


class SkipReport(msgspec.Struct, frozen=True):
    """Messages that a job has skipped on request, because they were lost."""

    value: str
    """The value of the annotation that requested it."""
    messages: int
    lost: str
    """A description of the lost messages."""


class BareReport(msgspec.Struct, frozen=True, rename="camel"):
    """The whole report of a driver whose job cannot start."""

    error: str | None = None
    driver: str | UnsetType = UNSET
    """The uid of the driver's pod, in a cluster."""


class DriverReport(BareReport, frozen=True, rename="camel"):
    """The report of a driver whose job runs."""

    engine: str = ""
    """The engine. If the user has not chosen one, also the reason for this engine."""
    adopted_epoch: int = 0
    """The epoch of the last committed batch."""
    batch: int = -1
    """The number of the last committed batch; -1 before the first one."""
    executors: list[str] = []
    """The ids of all executors that are registered with Spark, including those without a slot."""
    slots: Mapping[str, Filler] | None = None
    """The executors of the filled slots; None in the report of a job that cannot start."""
    pinned: bool = False
    """Whether Spark was observed to run tasks at their locations."""
    rows: Mapping[str, int] = {}
    """The number of rows of each slot."""
    bytes: int = 0
    tasks: int = 0
    misplaced_tasks: int = 0
    offsets: int = 0
    skipped: SkipReport | None = None


COUNTERS = frozenset({"batch", "rows", "bytes", "tasks", "misplacedTasks", "offsets"})
"""Fields that change with every batch. Readers need not react to such a change."""


def read(text: bytes | str) -> DriverReport:
    """Parse either report. Fields that the bare report lacks have their default values."""
    return msgspec.json.decode(text, type=DriverReport)
