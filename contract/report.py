"""What a driver reports of itself: to a file, and in a cluster to its ConfigMap."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType


class Filler(msgspec.Struct, frozen=True):
    """An executor that fills a slot."""

    executor: str
    """Spark's id of it."""
    host: str = ""


class SkipReport(msgspec.Struct, frozen=True):
    """What a job has passed over as asked, because it was gone for good."""

    value: str
    """Of the annotation that asked."""
    messages: int
    lost: str
    """Which, in words."""


class BareReport(msgspec.Struct, frozen=True, rename="camel"):
    """The whole report of a driver whose job cannot start."""

    error: str | None = None
    driver: str | UnsetType = UNSET
    """In a cluster: the uid of the driver's pod."""


class DriverReport(BareReport, frozen=True, rename="camel"):
    """The report of a driver whose job runs."""

    adopted_epoch: int = 0
    """Of the last batch that is committed."""
    batch: int = -1
    """The last one that is committed; -1 before the first."""
    executors: list[str] = []
    """All that are registered with Spark, also those without a slot, by their ids."""
    slots: Mapping[str, Filler] | None = None
    """Who fills those that are filled; None in the report of a job that cannot start."""
    pinned: bool = False
    """Whether Spark is seen to run tasks where they are sent."""
    rows: Mapping[str, int] = {}
    """By slot."""
    bytes: int = 0
    tasks: int = 0
    misplaced_tasks: int = 0
    offsets: int = 0
    skipped: SkipReport | None = None


COUNTERS = frozenset({"batch", "rows", "bytes", "tasks", "misplacedTasks", "offsets"})
"""Fields that change with every batch, and ask nothing of whoever reads the report."""


def read(text: bytes | str) -> DriverReport:
    """Read either report; what the bare one does not say is as by default."""
    return msgspec.json.decode(text, type=DriverReport)
