"""Queries of DuckDB over the messages of a call."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from mq_client.errors import UsageError
from mq_client.messages import StoredMessage
from spark_jobs import schema
from spark_jobs.pipeline.flow import duckdb_query
from spark_jobs.pipeline.flow.duckdb_query import DuckDbQuery


def make_rows(*bodies: bytes) -> pa.RecordBatch:
    messages = [
        StoredMessage(
            "orders", "broker-a", 0, number, body, {"k": "v"}, 0, 0, 0, b"", 0, b"", 0, 0, 0
        )
        for number, body in enumerate(bodies)
    ]
    return schema.make_few_rows(messages, include_properties=True)


def run(text: str, *bodies: bytes) -> list[dict[str, object]]:
    found = DuckDbQuery(text)(iter([make_rows(*bodies)]))
    return [row for batch in found for row in batch.to_pylist()]


def test_a_query_sees_the_columns_of_messages() -> None:
    text = "SELECT queue_offset, decode(body) AS body, properties['k'] AS k FROM messages"
    assert run(f"{text} WHERE queue_offset % 2 = 1", b"a", "é".encode(), b"c") == [
        {"queue_offset": 1, "body": "é", "k": "v"}
    ]


def test_rows_can_be_dead_letters() -> None:
    text = "SELECT decode(body) AS body, CASE WHEN body = 'b'::blob THEN 'bad' END AS _error"
    found = run(f"{text} FROM messages", b"a", b"b")
    assert [row[schema.ERROR_COLUMN] for row in found] == [None, "bad"]


def test_calls_at_the_same_time_see_their_own_messages() -> None:
    with ThreadPoolExecutor(4) as threads:
        bodies = [b"%d" % number for number in range(200)]
        found = threads.map(lambda body: run("SELECT body FROM messages", body), bodies)
        assert list(found) == [[{"body": body}] for body in bodies]


def test_times_do_not_depend_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    duckdb_query._open_database.cache_clear()
    text = "SELECT hour(born_timestamp) AS hour, born_timestamp AS at FROM messages"
    [batch] = DuckDbQuery(text)(iter([make_rows(b"a")]))
    assert batch["hour"].to_pylist() == [0]
    assert batch["at"].type == schema.TIMESTAMP


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("SELECT nothing FROM messages", "nothing"),
        ("SELECT * FROM batches", "batches does not exist"),  # a variable where the query runs
        ("SELEC 1", "syntax error"),
        ("SELECT properties FROM messages", "properties"),
        ("", "not one query"),
        ("SELECT topic FROM messages; SELECT 2", "not one query"),
        ("CREATE TABLE x (a int)", "not one query"),
        ("SELECT topic AS a, keys AS A FROM messages", "two columns are called a"),
    ],
)
def test_a_wrong_query_is_refused_before_anything_is_read(text: str, named: str) -> None:
    with pytest.raises(UsageError, match=f"transform.duckdb: (?s:.*){named}"):
        DuckDbQuery(text).check(include_properties=False)


def test_without_duckdb_the_page_on_images_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"Python package duckdb .*docs/operating/images\.md"):
        DuckDbQuery("SELECT 1").check(include_properties=False)
