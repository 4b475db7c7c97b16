"""
A query in the dialect of DuckDB, as the function of a flow.

Spark runs its SQL in stages that begin and end, and a flow has none. DuckDB runs inside the task,
on Arrow's memory. Some expressions of both dialects look the same and give other values: `CAST(body
AS string)` escapes all but ASCII in DuckDB. So a query of Spark never runs here by itself.
"""

import functools
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mq_client.errors import UsageError
from spark_jobs import schema

TABLE = "messages"


@dataclass(frozen=True, slots=True)
class DuckDbQuery:
    """A query over the messages of one call. Several threads may call it at the same time."""

    text: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """Run the query for each batch."""
        for batch in batches:
            with _open_database().cursor() as cursor:  # cursors share nothing but the database
                cursor.register(TABLE, batch)
                found = cursor.sql(self.text)
                if found is not None:
                    yield from found.to_arrow_reader()

    def check(self, *, include_properties: bool) -> None:
        """Raise a `UsageError` if DuckDB is missing, or does not understand the query."""
        if importlib.util.find_spec("duckdb") is None:
            raise UsageError(
                "transform.duckdb needs the Python package duckdb in the image of driver and "
                "executors: see docs/operating/images.md"
            )
        from duckdb import Error

        try:
            list(self(iter([schema.make_few_rows([], include_properties)])))
        except Error as error:
            raise UsageError(f"transform.duckdb: {error}") from error


@functools.cache
def _open_database() -> Any:
    """Open the database of this process. It is in memory, and has nothing but views."""
    import duckdb

    # A task runs many calls beside each other, so none needs threads of its own. Without
    # replacements, a wrong name in a query is an error, and no variable of our code.
    return duckdb.connect(config={"threads": 1, "python_enable_replacements": False})
