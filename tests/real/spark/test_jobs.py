"""A job's batches, offsets and exit code when something goes wrong."""

import base64
import itertools
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contract.exit_codes import DONE, PERMANENT
from mq_client import blocking, flows
from mq_client.choosers import RoundRobin
from mq_client.commands.sending import Send
from mq_client.messages import Message
from mq_client.pulling import Position
from sandbox import jars
from sandbox.jobs import PATIENCE_SECONDS, SPARK, RunningJob
from sandbox.rocketmq import RocketMq
from sandbox.rocketmq import run as run_rocketmq
from tests.real.secured import KEEPER, SECURED

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

# Without executors, as a scheduled job starts in a cluster.
WITHOUT = {"spark.master": "local[2]", "spark.executor.instances": "0"}
IN_ONE_PROCESS = {"spark": {**SPARK, **WITHOUT}}


@pytest.fixture
def send(client: blocking.Client, topic: str) -> Any:
    """A function that sends the given count of further numbers."""
    return make_sender(client, topic)


def make_sender(client: blocking.Client, topic: str) -> Callable[[int], None]:
    chooser = RoundRobin()
    numbers = itertools.count()

    def send(count: int) -> None:
        found = itertools.islice(numbers, count)
        for number in list(found):
            client.send([Message(topic, b"%d" % number)], chooser)

    return send


def job(
    tmp_path: Path, client: blocking.Client, rocketmq: RocketMq, topic: str, **parts: Any
) -> RunningJob:
    where = rocketmq.name_server.address
    return RunningJob(tmp_path, client, topic, where, parts={**IN_ONE_PROCESS, **parts})


def ended(running: RunningJob) -> int:
    """Wait until the job ends by itself; return its exit code."""
    return running.process.wait(PATIENCE_SECONDS)


def bodies(folder: Path) -> list[int]:
    lines = [line for part in folder.rglob("part-*.json") for line in part.read_text().splitlines()]
    return sorted(int(json.loads(line)["body"]) for line in lines)


def committed(client: blocking.Client, running: RunningJob) -> int:
    queues = client.find_route(running.topic).readable
    return sum(client.find_committed(running.group, queue) or 0 for queue in queues)


def test_a_transform_that_raises_ends_the_job_and_its_cure_reads_on_from_there(
    tmp_path: Path, client: blocking.Client, rocketmq: RocketMq, topic: str, send: Any
) -> None:
    file = tmp_path / "users.py"
    file.write_text("def transform(df):\n    raise KeyError('amount')\n")
    send(20)
    with job(tmp_path, client, rocketmq, topic, transform={"file": str(file)}) as running:
        assert ended(running) == PERMANENT
        assert f"{file}: KeyError: 'amount'" in running.report["error"]
        assert committed(client, running) == 0
        file.write_text(
            "def transform(df):\n    return df.selectExpr('CAST(body AS string) body')\n"
        )
        running.start()
        running.wait_until(lambda _: committed(client, running) == 20)
        assert running.end_by(signal.SIGTERM) == DONE
        assert committed(client, running) == 20
    assert bodies(tmp_path / "rows") == list(range(20))


def test_each_row_is_written_once_though_the_transform_changes_its_mind_and_rows_get_lost(
    tmp_path: Path, client: blocking.Client, rocketmq: RocketMq, topic: str, send: Any
) -> None:
    """
    A service fails at its first call for a row, so computing the rows again gives other results.

    After the sink has its rows and before the dead letters are written, the executors drop their
    cached rows, as if the rows were lost.
    """
    users, calls = tmp_path / "users.py", tmp_path / "calls"
    calls.mkdir()
    users.write_text(
        f"""
import pathlib
from pyspark.sql import functions as F

CALLS = pathlib.Path("{calls}")

def ask(body):
    is_first = not (CALLS / body).exists()
    (CALLS / body).touch()
    return "the service is away" if is_first and int(body) % 5 == 0 else None

def transform(df):
    rows = df.selectExpr("CAST(body AS string) body")
    return rows.withColumn("_error", F.udf(ask, "string")("body"))

def write(df, query, batch):
    df.write.mode("overwrite").json(f"{tmp_path}/rows/batch={{batch}}")
    if not (CALLS / "forgotten").exists():
        (CALLS / "forgotten").touch()
        kept = df.sparkSession.sparkContext._jsc.getPersistentRDDs()
        for number in list(kept):
            kept[number].unpersist(True)
"""
    )
    dead = {"format": "json", "path": str(tmp_path / "dead")}
    file = {"file": str(users)}
    send(20)
    with job(
        tmp_path, client, rocketmq, topic,
        transform=file, sink=file, deadLetter=dead, mode="Scheduled",
    ) as running:  # fmt: skip
        assert ended(running) == DONE, running.log
        assert committed(client, running) == 20
    good, bad = bodies(tmp_path / "rows"), bodies(tmp_path / "dead")
    assert sorted(good + bad) == list(range(20))


def test_a_message_that_cannot_be_read_stops_nobody_who_has_dead_letters(
    tmp_path: Path, client: blocking.Client, rocketmq: RocketMq, topic: str, send: Any
) -> None:
    """One message's time is wrong by 146 million years, another one's zlib stream is invalid."""
    send(3)
    queue = client.find_route(topic).readable[0]
    broker = client.find_route(topic).find_broker(queue.broker)
    assert broker is not None
    assert broker.master is not None
    for request in (
        Send("poison", queue, b"3", "", born_ms=1 << 62),
        Send("poison", queue, b"this is no zlib", "KEYS\x01k\x02", born_ms=1, sys_flag=0x301),
        Send("poison", queue, b"4", "", born_ms=1),
    ):
        client.engine.run(flows.ask(broker.master, request, 10.0))
    with job(tmp_path, client, rocketmq, topic, mode="Scheduled") as running:
        assert ended(running) == PERMANENT
        assert "the ZLIB body does not expand" in running.report["error"]
        running.parts["deadLetter"] = {"format": "json", "path": str(tmp_path / "dead")}
        running.start()
        assert ended(running) == DONE, running.log
        assert committed(client, running) == 6
    assert bodies(tmp_path / "rows") == list(range(5))
    (dead,) = [
        line for part in tmp_path.glob("dead/*/*/part*") for line in part.read_text().splitlines()
    ]
    found = json.loads(dead)
    assert base64.b64decode(found["body"]) == b"this is no zlib"
    assert (found["topic"], found["keys"]) == (topic, "k")
    assert "the ZLIB body does not expand" in found["_error"]


def test_rows_with_an_error_and_nowhere_to_go_end_the_job(
    tmp_path: Path, client: blocking.Client, rocketmq: RocketMq, topic: str, send: Any
) -> None:
    sql = "SELECT string(body) AS body, 'bad' AS _error FROM messages"
    send(5)
    with job(tmp_path, client, rocketmq, topic, transform={"sql": sql}) as running:
        assert ended(running) == PERMANENT
        assert "the job has no deadLetter" in running.report["error"]
        assert committed(client, running) == 0


def test_a_job_sends_rows_to_another_topic_and_errors_to_dead_letters_and_pulls_a_batch_once(
    tmp_path: Path, client: blocking.Client, rocketmq: RocketMq, topic: str, send: Any
) -> None:
    to = f"{topic}-too"
    rocketmq.create_topics({to: 1})
    body = "CAST(body AS string)"
    sql = f"SELECT concat('seen ', {body}) AS body, IF({body} % 2 = 0, NULL, 'odd') AS _error"
    parts = {
        "transform": {"sql": f"{sql} FROM messages"},
        "sink": {
            "format": "rocketmq",
            "options": {"nameServers": rocketmq.name_server.address, "topic": to},
        },
        "deadLetter": {"format": "json", "path": str(tmp_path / "dead")},
    }
    send(20)
    with job(tmp_path, client, rocketmq, topic, mode="Scheduled", **parts) as running:
        assert ended(running) == DONE, running.log
        assert running.report["rows"] == {"": 20}
        assert committed(client, running) == 20
    queues = client.find_route(to).readable
    ends = {queue: client.find_max_offset(queue) for queue in queues}
    positions = [Position(queue, 0, stop=end) for queue, end in ends.items() if end]
    found = [m.body for batch in client.read("checker", positions) for m in batch.to_messages()]
    assert sorted(found) == sorted(b"seen %d" % number for number in range(0, 20, 2))
    dead = [
        json.loads(line)["body"]
        for part in (tmp_path / "dead").rglob("part-*.json")
        for line in part.read_text().splitlines()
    ]
    assert sorted(dead) == sorted(f"seen {number}" for number in range(1, 20, 2))


def test_a_killed_job_replaces_what_it_wrote_and_goes_on_without_its_checkpoint(
    tmp_path: Path, client: blocking.Client, rocketmq: RocketMq, topic: str, send: Any
) -> None:
    """
    The job has two lanes, and is killed while one is between its sink and its commit.

    The user's sink writes to a given path, and its first call in that lane never returns. The
    other lane goes on meanwhile. The next driver has one lane. Later the checkpoint is lost.
    Without it, the job continues at the committed offsets of its group, and ignores `startFrom`.
    Messages that were read but not committed would come again; here, all are committed.
    """
    sink, mark = tmp_path / "sink.py", tmp_path / "written"
    sink.write_text(
        f"""
import pathlib, threading

def write(df, query, batch):
    place = f"{tmp_path}/rows/query={{query}}/batch={{batch}}"
    df.selectExpr("CAST(body AS string) body").write.mode("overwrite").json(place)
    mark = pathlib.Path("{mark}")
    if query.endswith("-1") and not mark.exists():
        mark.touch()
        threading.Event().wait()
"""
    )
    send(20)
    with job(
        tmp_path, client, rocketmq, topic, sink={"file": str(sink)}, transform={}, lanes=2
    ) as running:
        running.wait_until(lambda _: mark.exists() and committed(client, running) > 0)
        before = committed(client, running)
        send(20)
        running.wait_until(lambda _: committed(client, running) > before)
        running.end_by(signal.SIGKILL)
        assert committed(client, running) < 40
        del running.parts["lanes"]
        running.start()
        running.wait_until(lambda _: committed(client, running) == 40)
        assert running.end_by(signal.SIGTERM) == DONE
        assert bodies(tmp_path / "rows") == list(range(40))

        shutil.rmtree(tmp_path / "checkpoint")
        del running.parts["sink"], running.parts["transform"]  # back to the defaults
        send(20)
        running.start()
        running.wait_until(lambda _: committed(client, running) == 60)
        assert running.end_by(signal.SIGTERM) == DONE
        assert "this checkpoint is new, but the group is not" in running.log
    found = bodies(tmp_path / "rows")
    assert sorted(set(found)) == list(range(60)), "lost"
    assert len(found) == 60, "doubled"
    assert len(list((tmp_path / "rows").glob("query=*"))) == 3, "two lanes, and a new checkpoint"


def test_a_checkpoint_of_a_release_with_streaming_queries_is_continued_with_its_planned_batch(
    tmp_path: Path, client: blocking.Client, rocketmq: RocketMq, unique_name: str
) -> None:
    """
    The checkpoint was written by a job of that release, which was killed between sink and commit.

    Its batches 1 and 2 are committed, with four messages each; batch 3 has the next four.
    """
    topic = unique_name
    rocketmq.create_topics({topic: 2}, ["broker-a"])
    send = make_sender(client, topic)
    checkpoint, sink = tmp_path / "checkpoint", tmp_path / "sink.py"
    shutil.copytree(Path(__file__).parent / "sparks_checkpoint", checkpoint)
    sink.write_text(
        f"""
def write(df, query, batch):
    place = f"{tmp_path}/rows/query={{query}}/batch={{batch}}"
    df.selectExpr("CAST(body AS string) body").write.mode("overwrite").json(place)
"""
    )
    send(12)
    running = job(tmp_path, client, rocketmq, topic, sink={"file": str(sink)}, transform={})
    for entry in (checkpoint / "offsets").iterdir():
        text = entry.read_text().replace('"group-orders"', f'"{running.group}"')
        entry.write_text(text.replace('"orders"', f'"{topic}"'))
    with running:
        running.wait_until(lambda _: committed(client, running) == 12)
        send(4)
        running.wait_until(lambda _: committed(client, running) == 16)
        assert running.end_by(signal.SIGTERM) == DONE
    query = json.loads((checkpoint / "taken-over/0/metadata").read_bytes())["id"]
    folder = tmp_path / f"rows/query={query}"
    assert bodies(folder / "batch=3") == [8, 9, 10, 11]
    assert bodies(folder) == list(range(8, 16))
    assert {each.name for each in checkpoint.iterdir()} == {"flow", "taken-over"}


def test_a_sink_that_always_fails_ends_the_job_at_the_third_time(
    tmp_path: Path, client: blocking.Client, rocketmq: RocketMq, topic: str, send: Any
) -> None:
    sink, count = tmp_path / "sink.py", tmp_path / "count"
    sink.write_text(
        f"""
def write(df, query, batch):
    df.count()
    with open("{count}", "a") as file:
        file.write(f"{{query}} {{batch}}\\n")
    raise OSError("the disk is full")
"""
    )
    send(5)
    with job(tmp_path, client, rocketmq, topic, sink={"file": str(sink)}) as running:
        assert ended(running) == PERMANENT
        assert "the disk is full" in running.report["error"]
        assert committed(client, running) == 0
    tries = count.read_text().splitlines()
    assert len(tries) == 3
    assert len(set(tries)) == 1


def test_a_checkpoint_of_another_group_ends_the_job_and_a_topic_that_is_not_there_is_waited_for(
    tmp_path: Path, client: blocking.Client, rocketmq: RocketMq, topic: str, send: Any
) -> None:
    """A restarted name server knows no topic either, until brokers have registered."""
    send(5)
    with job(tmp_path, client, rocketmq, topic, mode="Scheduled") as running:
        assert ended(running) == DONE
        running.options["group"] = "somebody-else"
        running.start()
        assert ended(running) == PERMANENT
        assert f"belongs to the group '{running.group}'" in running.report["error"]
        running.options["topics"] = f"{topic}-later"
        running.parts["checkpoint"] = str(tmp_path / "new")
        running.start()
        running.wait_until(lambda report: "TopicUnknownError" in (report.get("error") or ""))
        rocketmq.create_topics({f"{topic}-later": 1})
        assert ended(running) == DONE


def test_a_job_with_wrong_credentials_ends_and_does_not_tell_them(
    tmp_path: Path, unique_name: str
) -> None:
    with (
        run_rocketmq(brokers=1, properties=SECURED, credentials=KEEPER) as mq,
        blocking.Client(mq.name_server.address, credentials=KEEPER) as client,
    ):
        mq.create_topics({unique_name: 1})
        running = job(tmp_path, client, mq, unique_name)
        running.options |= {"accessKey": KEEPER.access_key, "secretKey": "not-that-one"}
        with running:
            assert ended(running) == PERMANENT
            assert "check access key" in running.report["error"]
        assert "not-that-one" not in running.log


def test_a_broker_killed_under_a_job_is_waited_for_and_nothing_is_lost(
    tmp_path: Path, unique_name: str
) -> None:
    with (
        run_rocketmq(brokers=2) as mq,
        blocking.Client(mq.name_server.address) as client,
    ):
        mq.create_topics({unique_name: 2})
        chooser = RoundRobin()
        running = job(tmp_path, client, mq, unique_name)
        running.options["fetchDeadline"] = "3s"
        with running:
            for number in range(100):
                client.send([Message(unique_name, b"%d" % number)], chooser)
            running.wait_until(lambda it: sum(it.get("rows", {}).values()) > 0)
            mq.brokers["broker-a"].kill()
            for number in range(100, 200):
                client.send([Message(unique_name, b"%d" % number)], chooser)
            mq.brokers["broker-a"].restart()
            running.wait_until(lambda _: committed(client, running) == 200)
            assert running.report["error"] is None
            assert running.end_by(signal.SIGTERM) == DONE
    assert bodies(tmp_path / "rows") == list(range(200))
