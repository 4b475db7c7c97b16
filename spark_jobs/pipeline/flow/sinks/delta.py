"""
Tables of Delta Lake, through the library deltalake.

A Delta table keeps the newest version number of each application. Here each queue is an
application, and its position is the version. Delta refuses a commit if another commit has meanwhile
changed the version of one of the same applications. Commits of different queues do not conflict.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spark_jobs.pipeline.flow.sinks.kinds import RowsRefusedError
from spark_jobs.pipeline.flow.sinks.tables import TableConflictError

FORMAT, PACKAGE = "delta", "deltalake"
_INVALID, _UNCAST = "Invalid data found", "Cast error"
"""Parts of an error's text: a row violates a constraint, or a constraint cannot be computed."""
_COMPUTED = b"delta.generationExpression"


@dataclass(frozen=True, slots=True)
class DeltaPlace:
    """A folder in any store that the library can reach. There is nothing to open."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    """Options of the store, such as keys."""

    def open(self) -> "DeltaPlace":
        """Begin to use the table, in a task."""
        return self

    def find(self) -> "DeltaVersion | None":
        """Return the newest version of the table, or None if there is no table."""
        from deltalake import DeltaTable, exceptions

        try:
            return DeltaVersion(DeltaTable(self.name, storage_options=dict(self.options)))
        except exceptions.TableNotFoundError:
            return None

    def create(self, schema: pa.Schema) -> "DeltaVersion | None":
        """Create an empty table, unless another task does it now; return its newest version."""
        from deltalake import DeltaTable

        DeltaTable.create(self.name, schema, mode="ignore", storage_options=dict(self.options))
        return self.find()

    def close(self) -> None:
        """Do nothing: nothing is open."""


@dataclass(frozen=True, slots=True)
class DeltaVersion:
    """A table as it was at one moment."""

    table: Any

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return pa.schema(self.table.schema().to_arrow())

    @property
    def computed(self) -> list[str]:
        """The columns that the table computes if rows lack them."""
        return [each.name for each in self.schema if _COMPUTED in (each.metadata or {})]

    def find_position(self, name: str) -> int | None:
        """Find a position by its name."""
        found: int | None = self.table.transaction_version(name)
        return found

    def append(self, rows: pa.Table, moved: Mapping[str, int]) -> None:
        """Commit rows and positions together. The commit is based on this version."""
        from deltalake import CommitProperties, Transaction, exceptions, write_deltalake

        positions = [Transaction(name, offset) for name, offset in moved.items()]
        properties = CommitProperties(app_transactions=positions)
        try:
            write_deltalake(
                self.table, rows, mode="append", schema_mode="merge", commit_properties=properties
            )  # the merge adds only columns that the table computes
        except exceptions.CommitFailedError as error:
            raise TableConflictError(str(error)) from error
        except Exception as error:
            if _INVALID not in str(error) and _UNCAST not in str(error):
                raise
            raise RowsRefusedError(str(error)) from error
