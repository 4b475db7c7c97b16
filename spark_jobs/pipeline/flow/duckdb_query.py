"""
A query in the dialect of DuckDB, as the function of a flow.

Spark runs its SQL in stages that begin and end, and a flow has no such stages. DuckDB runs inside
the task, on Arrow's memory. Some expressions exist in both dialects, but give different values: in
DuckDB, `CAST(body AS string)` escapes everything except ASCII. So DuckDB never runs a query that
was written for Spark, unless the user asks for that.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mq_client.errors import UsageError
from spark_jobs import schema
from spark_jobs.pipeline.flow.libraries import check_installed

TABLE = "messages"


@dataclass(frozen=True, slots=True)
class DuckDbQuery:
    """A query over the messages of one call. Several threads may call it at the same time."""

    text: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """Run the query for each batch."""
        for batch in batches:
            with _open_database().cursor() as cursor:  # cursors share nothing but the database
                yield from self._run(cursor, batch)

    def check(self, *, include_properties: bool) -> None:
        """Raise a `UsageError` if DuckDB is missing, or does not understand the query."""
        check_installed("transform.duckdb", "duckdb")
        from duckdb import Error, StatementType

        try:
            statements = _open_database().extract_statements(self.text)
            if [each.type for each in statements] != [StatementType.SELECT]:
                raise UsageError("transform.duckdb: this is not one query, such as a SELECT")
            with _open_database().cursor() as cursor:
                found = self._run(cursor, schema.make_few_rows([], include_properties))
                found.read_all()
        except Error as error:
            raise UsageError(f"transform.duckdb: {error}") from error
        counts = Counter(name.casefold() for name in found.schema.names)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise UsageError(f"transform.duckdb: two columns are called {', '.join(twice)}")

    def _run(self, cursor: Any, batch: pa.RecordBatch) -> pa.RecordBatchReader:
        cursor.register(TABLE, batch)
        return cursor.sql(self.text).to_arrow_reader()


@functools.cache
def _open_database() -> Any:
    """Open the database of this process. It is in memory, and contains only views."""
    import duckdb

    # A task runs many calls concurrently, so no call needs more than one thread. With replacements,
    # DuckDB would look up an unknown name in a query as a variable of our code. Without them, such
    # a name is an error.
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
    }
    database = duckdb.connect(config=config)
    database.execute("SET GLOBAL TimeZone = 'UTC'")  # not the time zone of each container
    return database
