"""
Tables of Iceberg, through the library pyiceberg. Positions are properties of the table.

A catalog refuses a commit that is not based on the newest snapshot of the table. Here every commit
makes a snapshot, even a commit without rows. So if another task has moved a position meanwhile, the
catalog refuses the commit.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spark_jobs.pipeline.flow.sinks.kinds import RowsRefusedError
from spark_jobs.pipeline.flow.sinks.tables import TableConflictError

FORMAT, PACKAGE = "iceberg", "pyiceberg"
CATALOGS = ("rest", "sql", "glue")
"""Types of catalogs that compare a commit with the newest version and store it atomically."""
ANSWER_SECONDS = 60
"""How long a catalog behind HTTP may take to answer. The library itself sets no limit."""
NAME = re.compile(r"[^.]+(\.[^.]+){2,}")


@dataclass(frozen=True, slots=True)
class IcebergPlace:
    """A table of a catalog."""

    name: str
    """Catalog, namespace and table, as Spark names them: `lake.shop.orders`."""
    options: Mapping[str, str] = field(repr=False)
    """Options of the catalog, such as type, uri and keys."""

    def open(self) -> "IcebergCatalog":
        """Begin to use the table, in a task."""
        return IcebergCatalog(self)


class IcebergCatalog:
    """The catalog of a table, as a task uses it."""

    def __init__(self, place: IcebergPlace) -> None:
        """Send no request yet: the catalog may be down."""
        self._name, _, self._table = place.name.partition(".")
        self._options = place.options
        self._opened: Any = None

    def find(self) -> "IcebergVersion | None":
        """Return the newest version of the table, or None if there is no table."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return IcebergVersion(self._open().load_table(self._table))
        except NoSuchTableError:
            return None

    def create(self, schema: pa.Schema) -> "IcebergVersion":
        """Create an empty table, unless another task does it now; return its newest version."""
        return IcebergVersion(self._open().create_table_if_not_exists(self._table, schema))

    def close(self) -> None:
        """Free the connections."""
        if self._opened is not None:
            self._opened.close()

    def _open(self) -> Any:
        if self._opened is None:
            self._opened = _open_catalog(self._name, self._options)
        return self._opened


def _open_catalog(name: str, options: Mapping[str, str]) -> Any:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.catalog.rest import RestCatalog

    class PatientCatalog(RestCatalog):
        def _create_session(self) -> Any:
            session: Any = super()._create_session()
            session.request = functools.partial(session.request, timeout=ANSWER_SECONDS)
            return session

    if options["type"] == "rest":
        return PatientCatalog(name, **options)
    return load_catalog(name, **options)


@dataclass(frozen=True, slots=True)
class IcebergVersion:
    """A table as it was at one moment."""

    table: Any

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self.table.schema().as_arrow()

    @property
    def computed(self) -> list[str]:
        """Empty: Iceberg computes no columns."""
        return []

    def find_position(self, name: str) -> int | None:
        """Find a position by its name."""
        found = self.table.properties.get(name)
        return None if found is None else int(found)

    def append(self, rows: pa.Table, moved: Mapping[str, int]) -> None:
        """Commit rows and positions together. The commit is based on this version."""
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table.update import AssertTableUUID

        table = self.table
        change = table.transaction()
        try:
            change.append(rows)  # writes files, and commits nothing yet
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise RowsRefusedError(str(error)) from error
        change.set_properties({name: str(offset) for name, offset in moved.items()})
        # Do not commit through the transaction. After a conflict, it would commit again without
        # checking the positions, or delete its files. It must not delete them, because a refused
        # commit may be stored: if the catalog's first answer is lost, the commit is sent again, and
        # refused the second time.
        same_table = AssertTableUUID(uuid=table.metadata.table_uuid)
        try:
            table.catalog.commit_table(table, (*change._requirements, same_table), change._updates)
        except CommitFailedException as error:
            raise TableConflictError(str(error)) from error
