"""
Followers that keep positions with their data are killed and frozen, again and again.

The messages are numbered. At the end the database has each number once. `make test` plays this with
4,000 messages for each database, `make exactly-once` with 200,000.
"""

import contextlib
import logging
import random
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from follower.positions import Step, keep_positions
from mq_client.blocking import Client
from mq_client.choosers import To
from mq_client.messages import Message
from mq_client.values import MessageQueue
from sandbox import debian, postgres, rocketmq
from sandbox.waiting import wait_for
from tests.coordinating import Coordinator
from tests.followers import ROOT, Followers

log = logging.getLogger(__name__)
SESSION_SECONDS = 2.0
MEMBERS = ("a", "b", "c")
CALLS = 10_000
"""About the highest number of calls. Each call is slow, so that many events come during a call."""
LEAST_BATCH = 4
AT_ONCE = 100
"""Messages of one send."""
SENT_A_SECOND = 1000
LEAST_SECONDS = 15.0
PAGE = (ROOT / "docs" / "follower.md").read_text("utf-8")
TABLES = (
    *re.findall(r"^```sql\n(.*?)^```", PAGE, re.S | re.M),
    # It has no key, so a number that is stored twice has two rows.
    "CREATE TABLE numbers (number INTEGER, broker VARCHAR(255), queue_id INTEGER)",
)
HANDLER = """
import os, random, time
from follower.positions import MovedOnError, keep_positions

{connect}

@keep_positions(connect)
def store(messages, cursor):
    for each in messages:
        cursor.execute(
            "INSERT INTO numbers VALUES ({mark}, {mark}, {mark})",
            (int(each.body), each.broker, each.queue_id),
        )
    time.sleep(random.random() / 100)  # to be killed or frozen here

class Handler:
    read_position = staticmethod(store.read_position)

    def __call__(self, messages, step):
        time.sleep(random.random() / 50)  # or here, before the transaction
        try:
            store(messages, step)
        except MovedOnError as error:
            os.write(2, f"REFUSED: {{error}}\\n".encode())
            raise

handle = Handler()
"""
SQLITE = """
import sqlite3

def connect():
    return sqlite3.connect({path!r}, timeout=30)
"""
POSTGRES = """
import psycopg

def connect():
    return psycopg.connect({address!r})
"""


class Database:
    """A database for followers and for the test."""

    def __init__(self, connect: Callable[[], Any], text: str, mark: str) -> None:
        self.handler = HANDLER.format(connect=text, mark=mark)
        self.own = connect()
        for each in TABLES:
            self.own.execute(each)
        self.own.commit()

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.own.execute(question).fetchall()
        self.own.commit()
        return found

    def count(self) -> int:
        ((found,),) = self.ask("SELECT COUNT(*) FROM numbers")
        return int(found)


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Iterator[Database]:
    path = str(tmp_path / "numbers.db")
    with contextlib.closing(sqlite3.connect(path, timeout=60)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        yield Database(lambda: connection, SQLITE.format(path=path), "?")


@pytest.fixture
def postgres_database() -> Iterator[Database]:
    psycopg = pytest.importorskip("psycopg")
    with contextlib.ExitStack() as running:
        try:
            address = running.enter_context(postgres.run())
        except debian.NoDebianError as error:
            pytest.skip(f"NO REAL POSTGRESQL: {error}")
        connection = running.enter_context(psycopg.connect(address))
        yield Database(lambda: connection, POSTGRES.format(address=address), "%s")


class Trouble:
    """Kills and freezes followers, and moves queues, until the block ends."""

    def __init__(self, followers: Followers, seed: int, count: int) -> None:
        self._batch = max(LEAST_BATCH, count // CALLS)
        self.counts = dict.fromkeys(("kill", "freeze", "move"), 0)
        self._followers = followers
        self._rng = random.Random(seed)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._make)

    def __enter__(self) -> "Trouble":
        self.publish()
        for name in MEMBERS:
            self._followers.start(name, "--batch", str(self._batch))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def publish(self) -> None:
        owners: dict[str, list[tuple[str, str]]] = {name: [] for name in MEMBERS}
        for broker in ("broker-a", "broker-b"):
            for number in range(2):
                owners[self._rng.choice(MEMBERS)].append((broker, str(number)))
        self._followers.coordinator.publish(owners)

    def _make(self) -> None:
        while not self._end.wait(self._rng.uniform(0.2, 1.5)):
            name = self._rng.choice(MEMBERS)
            what = self._rng.choice(list(self.counts))
            self.counts[what] += 1
            follower = self._followers.running[name]
            match what:
                case "kill":
                    follower.kill()
                    follower.wait()
                    self._end.wait(self._rng.uniform(0, SESSION_SECONDS))
                    self._followers.start(name, "--batch", str(self._batch))
                case "freeze":
                    follower.send_signal(signal.SIGSTOP)
                    self._end.wait(self._rng.uniform(0.1, 2 * SESSION_SECONDS))
                    follower.send_signal(signal.SIGCONT)
                case _:
                    self.publish()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_each_message_is_stored_once_whatever_happens_to_followers(
    kind: str,
    rocketmq: rocketmq.RocketMq,
    client: Client,
    topic: str,
    group: str,
    tmp_path: Path,
    seed: int,
    request: pytest.FixtureRequest,
) -> None:
    database: Database = request.getfixturevalue(f"{kind}_database")
    (tmp_path / "handler_of_test.py").write_text(database.handler)
    count = int(request.config.getoption("messages"))
    queues = [
        MessageQueue(topic, broker, each) for broker in ("broker-a", "broker-b") for each in (0, 1)
    ]
    address = rocketmq.name_server.address
    with Coordinator(address, topic, group, f"{SESSION_SECONDS:g}s") as coordinator:
        followers = Followers(coordinator, tmp_path, "handler_of_test:handle")
        try:
            with Trouble(followers, seed, count) as trouble:
                send(client, queues, count)
            wait_for(database.count, lambda found: found >= count, pause_seconds=0.2)
            stored = {(broker, number): at for broker, number, at in database.ask(
                "SELECT broker, queue_id, next_offset FROM evenkeel_positions"
            )}  # fmt: skip
            committed = wait_for(
                lambda: [client.find_committed(group, each) for each in queues],
                lambda found: found == [stored.get((each.broker, each.id)) for each in queues],
            )
        finally:
            followers.kill()
    ((rows, numbers, last),) = database.ask(
        "SELECT COUNT(*), COUNT(DISTINCT number), MAX(number) FROM numbers"
    )
    refused = followers.logs().count("REFUSED")
    log.info(
        "%s, seed %d: %d sent, %d lost, %d duplicated; %s; %d late transactions refused",
        kind, seed, count, count - numbers, rows - numbers, trouble.counts, refused,
    )  # fmt: skip
    assert (rows, numbers, last) == (count, count, count - 1), followers.logs()
    assert sum(stored.values()) == count
    assert committed == [stored[each.broker, each.id] for each in queues]


def send(client: Client, queues: list[MessageQueue], count: int) -> None:
    """Send the numbers to all queues in turn, spread over some time."""
    seconds = max(LEAST_SECONDS, count / SENT_A_SECOND)
    since = time.monotonic()
    for turn, first in enumerate(range(0, count, AT_ONCE)):
        queue = queues[turn % len(queues)]
        numbers = range(first, min(count, first + AT_ONCE))
        client.send([Message(queue.topic, b"%d" % each) for each in numbers], To(queue))
        time.sleep(max(0.0, since + seconds * numbers.stop / count - time.monotonic()))


def test_a_statement_that_has_failed_in_postgresql_stores_nothing(
    postgres_database: Database,
) -> None:
    """A later commit would roll back without an error, so a handler must not hide the failure."""
    psycopg = pytest.importorskip("psycopg")
    address = postgres_database.own.info.dsn

    @keep_positions(lambda: psycopg.connect(address))
    def hide(messages: Any, cursor: Any) -> None:
        with contextlib.suppress(psycopg.Error):
            cursor.execute("INSERT INTO no_such_table VALUES (1)")

    queue = MessageQueue("orders", "broker-a", 0)
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        hide([None], Step("billing", queue, None, 1))
    assert hide.read_position("billing", queue) is None
    hide._transactions._mine.connection.close()
