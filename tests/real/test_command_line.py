"""`python -m mq_client`, as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mq_client import errors, filters
from mq_client.blocking import Client
from mq_client.command_line import main
from mq_client.values import MessageQueue
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _name_server(rocketmq: RocketMq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", rocketmq.name_server.address)


def shown(client: Client, topic: str, broker: str, number: int, end: int) -> None:
    """Wait until the broker shows the queue's messages. It answers a send earlier than that."""
    queue = MessageQueue(topic, broker, number)
    assert wait_for(lambda: client.find_max_offset(queue), lambda seen: seen == end) == end


def test_what_is_sent_is_told_and_can_be_tailed(
    topic: str, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    for body in ("one", "two", "three"):
        assert main(["send", topic, body, "--tags", f"tag-{body}", "--queue", "broker-b:1"]) == 0
    assert "broker-b      1       2" in capsys.readouterr().out
    shown(client, topic, "broker-b", 1, 3)
    assert main(["tail", topic, "--from", "earliest", "--no-follow"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "broker-b 1:0  tag-one  one",
        "broker-b 1:1  tag-two  two",
        "broker-b 1:2  tag-three  three",
    ]


def test_tail_filters_by_tag_and_speaks_json(
    topic: str, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    for body in ("one", "two"):
        main(["send", topic, body, "--tags", body, "--queue", "broker-a:0"])
    capsys.readouterr()
    shown(client, topic, "broker-a", 0, 2)
    place = ["--from", "earliest", "--no-follow", "--tags", "two", "-o", "json"]
    assert main(["tail", topic, *place]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    row = json.loads(line)
    assert row["msg_id"]
    assert (row["broker"], row["queue"], row["offset"], row["body"]) == ("broker-a", 0, 1, "two")


def test_lag_is_shown_queue_by_queue_with_its_sum(
    topic: str, group: str, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(5):
        main(["send", topic, "x", "--queue", "broker-a:1"])
    shown(client, topic, "broker-a", 1, 5)
    queue = client.find_route(topic).readable[1]
    client.send_heartbeat(group, "somebody", {topic: filters.EVERYTHING})
    client.commit(group, {queue: 2})
    capsys.readouterr()
    assert main(["lag", group, topic]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["broker-a", "1", "2", "5", "3"]
    assert lines[-1] == "3 messages behind on 1 queue; nothing is committed on 3 queues"


def test_a_group_that_nobody_knows_has_committed_nothing(
    topic: str, group: str, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["send", topic, "x", "--queue", "broker-a:1"])
    shown(client, topic, "broker-a", 1, 1)
    capsys.readouterr()
    assert main(["lag", group, topic]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["broker-a", "1", "-", "1", "-"]
    assert lines[-1] == (f"group {group!r} has committed nothing on these 4 queues: check its name")
    client.commit(group, {MessageQueue(topic, "broker-a", 1): 0})
    assert main(["lag", group, topic]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["broker-a", "1", "0", "1", "1"]
    assert lines[-1] == "1 message behind on 1 queue; nothing is committed on 3 queues"
    assert main(["lag", group, topic, "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["committed"] for row in rows] == [None, 0, None, None]


def test_a_topic_is_created_once_and_deleted(
    unique_name: str, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    create = ["create-topic", unique_name, "--queues", "3", "--broker", "broker-b", "-o", "json"]
    assert main(create) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["broker"], row["read_queues"], row["write_queues"]) == ("broker-b", 3, 3)
    assert main(["send", unique_name, "hello"]) == 0
    assert main(create) == 0, "it is so already"
    assert main(["create-topic", unique_name, "--queues", "3"]) == 1, "it is on one broker only"
    assert main([*create, "--queues", "2"]) == 1
    assert (
        f"topic {unique_name!r} exists already, with 3 queues on broker-b: nothing was changed"
        in capsys.readouterr().err
    )
    assert main(["delete-topic", unique_name]) == 0
    assert f"topic {unique_name!r} is deleted" in capsys.readouterr().out
    with pytest.raises(errors.TopicUnknownError):
        client.find_route(unique_name, max_age=0)
    assert main(["delete-topic", unique_name]) == 1
    assert "no topic" in capsys.readouterr().err.lower()


def test_offsets_are_reset_to_begin_end_and_a_time_unless_somebody_reads(
    topic: str, group: str, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        main(["send", topic, "x", "--queue", "broker-a:1"])
    shown(client, topic, "broker-a", 1, 3)
    queue = MessageQueue(topic, "broker-a", 1)
    client.commit(group, {queue: 2})
    capsys.readouterr()
    assert main(["reset-offsets", group, topic, "--to", "earliest", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["was"], row["now"]) for row in rows] == [(None, 0), (2, 0), (None, 0), (None, 0)]
    assert client.find_committed(group, queue) == 0
    one = ["--queue", "broker-a:1"]
    assert main(["reset-offsets", group, topic, "--to", "latest", *one]) == 0
    assert client.find_committed(group, queue) == 3
    assert main(["reset-offsets", group, topic, "--to", "1000", *one]) == 0
    assert client.find_committed(group, queue) == 0
    client.send_heartbeat(group, "somebody", {topic: filters.EVERYTHING})
    capsys.readouterr()
    assert main(["reset-offsets", group, topic, "--to", "latest"]) == 1
    assert (
        f"group {group!r} has the members somebody: stop them first, because they would commit "
        "their own offsets again" in capsys.readouterr().err
    )
    assert client.find_committed(group, queue) == 0


def test_members_are_listed_with_what_they_subscribe_to(
    topic: str, group: str, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.send_heartbeat(group, "somebody", {topic: filters.match_tags("a || b")})
    assert main(["members", group, topic, "-o", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["client_id"], row["language"], row["subscription"]) == (
        "somebody",
        "PYTHON",
        "a || b",
    )


def test_topics_leave_out_rocketmqs_own_unless_asked(
    topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["topics"])
    listed = capsys.readouterr().out.split()
    main(["topics", "--all"])
    everything = capsys.readouterr().out.split()
    assert topic in listed
    assert "SELF_TEST_TOPIC" not in listed
    assert {topic, "SELF_TEST_TOPIC"} < set(everything)


def test_a_route_names_brokers_and_addresses(
    topic: str, rocketmq: RocketMq, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["route", topic]) == 0
    text = capsys.readouterr().out
    assert all(f"0={broker.address}" in text for broker in rocketmq.brokers.values())


def test_an_unknown_topic_is_one_line_on_stderr_and_exit_code_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["route", "nobody-made-this"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("mq_client: GET_ROUTEINFO_BY_TOPIC nobody-made-this")
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["send", "x", "y", "--queue", "broker-a"],
        ["--name-server", "nonsense", "topics"],
        ["tail", "x", "--tags", "a ||"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_wrong_usage_is_exit_code_64(
    arguments: list[str], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([topic if word == "x" else word for word in arguments]) == 64
    assert capsys.readouterr().err.startswith("mq_client: ")


def test_without_a_name_server_it_says_how_to_give_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR")
    assert main(["topics"]) == 64
    assert "--name-server host:9876" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error(topic: str, rocketmq: RocketMq) -> None:
    """An example is `... tail | head -1`."""
    for _ in range(3):
        main(["send", topic, "x" * 70_000])
    command = [sys.executable, "-m", "mq_client", "tail", topic, "--from", "earliest"]
    child = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    main(["send", topic, "x" * 70_000])
    main(["send", topic, "x" * 70_000])
    _, told = child.communicate(timeout=60)
    assert (child.returncode, told) == (0, "")
