"""Sinks are made from the job file, or refused with an error that says what to do."""

from pathlib import Path
from typing import Any

import pytest

from mq_client.errors import UsageError
from spark_jobs.pipeline.flow.sinks import choosing
from spark_jobs.pipeline.flow.sinks.delta import DeltaPlace
from spark_jobs.pipeline.flow.sinks.functions import FunctionSink
from spark_jobs.pipeline.flow.sinks.iceberg import IcebergPlace
from spark_jobs.pipeline.flow.sinks.postgres import PostgresSinks
from spark_jobs.pipeline.flow.sinks.separate import SeparateSinks
from spark_jobs.pipeline.flow.sinks.tables import TableSink
from spark_jobs.pipeline.flow.sinks.topics import TopicSink
from tests.pinned_jobs import make_job_file

URL = "postgresql://db.shop/orders"
ROWS: dict[str, Any] = {
    "format": "postgresql",
    "options": {"url": URL, "table": "orders", "password": "p"},
}
DEAD: dict[str, Any] = {
    "format": "postgresql",
    "options": {"url": URL, "table": "dead", "password": "p"},
}
PLAIN = "def write_batches(batches, steps): ...\n"
KEEPING = """
class write_batches:
    def __call__(self, batches, steps): ...
    def read_position(self, group, queue): ...
"""


def write(folder: Path, text: str, name: str = "users") -> dict[str, Any]:
    file = folder / f"{name}_{abs(hash(text))}.py"
    file.write_text(text)
    return {"file": str(file)}


def test_rows_and_dead_letters_of_postgresql_share_a_transaction() -> None:
    job = make_job_file(sink=ROWS, deadLetter=DEAD)
    assert list(choosing.list_obstacles(job)) == []
    sinks = choosing.read(job)("q", 1)
    assert sinks == PostgresSinks(URL, "orders", "dead", {"password": "p"})
    assert "'p'" not in repr(sinks), "a log must not show passwords"
    assert sinks.takes_dead_letters
    assert not choosing.read(make_job_file(sink=ROWS))("q", 1).takes_dead_letters


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (
            {"sink": {"format": "postgresql", "options": {"url": URL}}},
            "sink.options: table is missing",
        ),
        (
            {"sink": {"format": "postgresql", "options": {**ROWS["options"], "mode": "x"}}},
            "sink.options: mode is unknown; postgresql has password, table, url, user",
        ),
        (
            {"sink": ROWS, "deadLetter": {**DEAD, "options": {"url": "other", "table": "dead"}}},
            "deadLetter.options: url, user and password must be those of the sink",
        ),
        (
            {"sink": {"format": "rocketmq", "options": {"topics": "out"}}},
            "sink.options: .*topics",
        ),
        (
            {"sink": {"format": "iceberg", "path": "l.s.o", "options": {"type": "hive"}}},
            "sink.options: type must be the kind of the catalog: rest, sql, glue",
        ),
        (
            {"sink": {"format": "json", "path": "s3://b/rows", "options": {"compression": "x"}}},
            "sink.options: compression is unknown; a path in S3 has access_key, secret_key",
        ),
        *(
            ({"sink": {"format": "json", "path": path}}, "sink.path .* is not s3://BUCKET")
            for path in ("s3://b/a//c", "s3://", "s3://b/../c", "s3://key:secret@b/rows")
        ),
        *(
            ({"sink": {"format": "json", "path": "s3://b/rows", "options": options}}, named)
            for options, named in (
                ({"access_key": "a"}, "access_key and secret_key must be given together"),
                ({"session_token": "a"}, "access_key and secret_key must be given together"),
                ({"region": ""}, "region is empty"),
                ({"scheme": "ftp"}, "scheme must be http or https"),
            )
        ),
    ],
)
def test_options_that_are_wrong_are_named(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        choosing.read(make_job_file(**changed))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"deadLetter": DEAD}, "deadLetter and sink of which only one is postgresql"),
        ({"deadLetter": {"format": "rocketmq"}}, "deadLetter.format rocketmq"),
        ({"sink": {**ROWS, "path": "/rows"}}, "sink.path with format postgresql"),
        ({"sink": {"format": "delta"}}, "sink without a path"),
        (
            {"sink": {"format": "iceberg", "path": "shop.orders"}},
            "sink.path shop.orders, other than CATALOG.NAMESPACE.TABLE",
        ),
    ],
)
def test_what_a_flow_does_not_have_is_an_obstacle(changed: dict[str, Any], named: str) -> None:
    assert list(choosing.list_obstacles(make_job_file(**changed))) == [named]


def test_files_may_be_in_a_bucket_and_passwords_are_not_shown() -> None:
    options = {"access_key": "me", "secret_key": "hidden"}
    job = make_job_file(sink={"format": "json", "path": "s3a://lake/rows/", "options": options})
    assert list(choosing.list_obstacles(job)) == []
    [folders] = choosing.read(job)("q", 3).folders
    assert folders.name_hidden("s", 1) == "s3a://lake/rows/query=q/_writing/3/s-1"
    assert "hidden" not in repr(folders)


def test_a_file_for_batches_is_an_obstacle(tmp_path: Path) -> None:
    sink = write(tmp_path, "def write(df, query_id, batch_id): ...\n")
    [found] = choosing.list_obstacles(make_job_file(sink=sink))
    assert found == "sink.file without a function write_batches"


def test_a_topic_and_a_function_are_sinks_of_their_own(tmp_path: Path) -> None:
    topic = {"format": "rocketmq", "options": {"nameServers": "n:1", "topic": "out"}}
    job = make_job_file(sink=topic, deadLetter=write(tmp_path, PLAIN))
    assert list(choosing.list_obstacles(job)) == []
    sinks = choosing.read(job)("q", 1)
    assert isinstance(sinks, SeparateSinks)
    assert isinstance(sinks.rows, TopicSink)
    assert sinks.rows.sending.topic == "out"
    assert isinstance(sinks.dead, FunctionSink)


@pytest.mark.parametrize(
    ("format_name", "place", "package"),
    [
        ("delta", DeltaPlace("lake.shop.orders", {}), "deltalake"),
        ("iceberg", IcebergPlace("lake.shop.orders", {"type": "rest"}), "pyiceberg"),
    ],
)
def test_a_lake_table_keeps_positions_for_rows_and_not_for_dead_letters(
    format_name: str,
    place: DeltaPlace | IcebergPlace,
    package: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = {"format": format_name, "path": place.name, "options": place.options}
    job = make_job_file(sink=table, deadLetter=table)
    assert list(choosing.list_obstacles(job)) == []
    assert choosing.read(job)("q", 1) == SeparateSinks(
        TableSink(place, True), TableSink(place, False)
    )
    mixed = make_job_file(sink=table, deadLetter={"format": "json", "path": "/bad"})
    with pytest.raises(UsageError, match=r"deadLetter\.path: files of dead letters could be lost"):
        choosing.read(mixed)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=f"needs the Python package {package} in the image"):
        choosing.read(job)


def test_positions_are_refused_where_they_would_lose_dead_letters(tmp_path: Path) -> None:
    keeping = write(tmp_path, KEEPING)
    with pytest.raises(UsageError, match=r"deadLetter\.path: files of dead letters could be lost"):
        choosing.read(make_job_file(sink=keeping, deadLetter={"format": "json", "path": "/dead"}))
    with pytest.raises(UsageError, match="only the function of the sink may keep positions"):
        choosing.read(make_job_file(deadLetter=keeping))
    sinks = choosing.read(make_job_file(sink=keeping, deadLetter=write(tmp_path, PLAIN)))("q", 1)
    assert sinks.open().positions is not None
