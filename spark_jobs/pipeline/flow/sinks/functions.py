"""A sink that is a function of the user: it may write anywhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from follower.positions import has_positions
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, ReadPosition

NAME = "write_batches"


@dataclass(frozen=True, slots=True)
class FunctionSink:
    """The driver's side."""

    function: Callable[..., Any]
    """Takes a list of Arrow batches, and the steps. For a class, each task makes one instance."""

    @property
    def folders(self) -> SinkFolders | None:
        """None: the driver knows no files of this sink."""
        return None

    @property
    def has_positions(self) -> bool:
        """Whether the function keeps positions with its own data."""
        return has_positions(self.function)

    def open(self) -> "FunctionWriter":
        """Begin to write, in a task."""
        function: Any = self.function
        if isinstance(function, type):
            function = function()
        return FunctionWriter(function)


class FunctionWriter:
    """A task's side."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Call nothing yet."""
        self._function = function

    @property
    def positions(self) -> ReadPosition | None:
        """The user's method `read_position`, if there is one."""
        if not has_positions(self._function):
            return None
        found: ReadPosition = self._function.read_position  # type: ignore[attr-defined]
        return found

    def write(self, delivery: Delivery, rows: Sequence[pa.RecordBatch]) -> str:
        """Call the function. If it keeps positions, call it even without rows, to move them."""
        if rows or self.positions is not None:
            self._function(list(rows), delivery.steps)
        return ""

    def close(self) -> None:
        """Let the user's class close what it has opened, if it has a method for that."""
        close = getattr(self._function, "close", None)
        if callable(close):
            close()
