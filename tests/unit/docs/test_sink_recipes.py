"""The functions of docs/sinks.md work as sinks of a job, with the promised results."""

import contextlib
import inspect
import re
import sqlite3
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from contract.job_file import JobFile, JobSink
from spark_jobs.pipeline import users_part
from spark_jobs.pipeline.checkpoint.plans import BatchName
from spark_jobs.pipeline.flow.sinks import choosing
from spark_jobs.pipeline.flow.sinks.kinds import Delivery
from tests.pinned_jobs import make_job_file

PAGE = Path(__file__).parents[3] / "docs" / "sinks.md"
DELTA, ICEBERG, UPSERT, FUNCTION = re.findall(
    r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.S | re.M
)


def write_of(recipe: str, folder: Path) -> users_part.Write:
    """Load a recipe's function as a job loads it."""
    file = folder / "sink.py"
    file.write_text(recipe, "utf-8")
    job = JobFile("billing", {}, "a", "r", "c", JobSink(file=str(file)))
    return users_part.read(job, lambda: None).write


class Payment(NamedTuple):
    order_id: str
    amount: float
    queue_offset: int


class Rows:
    """A DataFrame of one partition."""

    def __init__(self, *rows: Payment) -> None:
        self.rows = rows

    def select(self, *columns: str) -> "Rows":
        assert columns == Payment._fields
        return self

    def foreachPartition(self, save: Callable[[Iterator[Payment]], None]) -> None:  # noqa: N802
        save(iter(self.rows))


class Cursor:
    """A cursor of SQLite with psycopg's placeholders."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database

    def executemany(self, statement: str, values: list[Any]) -> None:
        self.database.executemany(statement.replace("%s", "?"), values)


class Connection:
    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database

    def cursor(self) -> contextlib.nullcontext[Cursor]:
        return contextlib.nullcontext(Cursor(self.database))


@pytest.mark.parametrize("recipe", [DELTA, ICEBERG, UPSERT], ids=["delta", "iceberg", "upsert"])
def test_a_recipe_is_a_sink(recipe: str, tmp_path: Path) -> None:
    file = tmp_path / "sink.py"
    file.write_text(recipe, "utf-8")
    write = users_part.load_function(str(file), "write")
    assert list(inspect.signature(write).parameters) == ["df", "query_id", "batch_id"]


def test_each_lane_has_a_query_id_of_its_own(tmp_path: Path) -> None:
    """Delta Lake skips a write whose number is lower than the last one of its id."""
    write = write_of("seen = []\n\ndef write(*given):\n    seen.append(given)\n", tmp_path)
    rows: Any = "rows"
    for name in (BatchName("q", 7), BatchName("q", 6, lane=2)):
        write(rows, name)
    seen = sys.modules["evenkeel_users_sink"].seen
    assert seen == [("rows", "q", 7), ("rows", "q-2", 6)]


def test_an_upsert_that_runs_again_changes_nothing_and_the_newest_row_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE payments (order_id PRIMARY KEY, amount, queue_offset)")
        fake = types.ModuleType("psycopg")
        fake.connect = lambda _: contextlib.nullcontext(Connection(database))  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "psycopg", fake)
        monkeypatch.setenv("PAYMENTS_DATABASE", "here")
        write = write_of(UPSERT, tmp_path)

        first: Any = Rows(Payment("1", 10.0, 5), Payment("2", 7.0, 6), Payment("1", 11.0, 8))
        for _ in range(2):
            write(first, BatchName("query", 0))
        newer: Any = Rows(Payment("1", 9.0, 4), Payment("2", 8.0, 9))
        write(newer, BatchName("query", 1))

        kept = database.execute("SELECT * FROM payments ORDER BY order_id").fetchall()
    assert kept == [("1", 11.0, 8), ("2", 8.0, 9)]


def test_a_function_of_a_flow_gets_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sink.py"
    file.write_text(FUNCTION, "utf-8")
    sinks = choosing.read(make_job_file(sink={"file": str(file)}))("q", 1)
    sent: list[bytes] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda url, data, timeout: sent.append(data))
    rows = pa.RecordBatch.from_pydict({"line": ["a=1", "b=2"]})
    sinks.open().write(Delivery("session", 1, []), [rows], [])
    assert sent == [b"a=1\nb=2"]
