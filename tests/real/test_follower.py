"""
Followers in separate processes on real brokers: they join, leave, are killed and frozen.

Messages are numbered, and each handled message is a line in a file.
"""

import logging
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from follower.options import FollowerOptions
from follower.pace import EACH_QUEUE
from mq_client import errors
from mq_client.blocking import Client
from mq_client.choosers import To
from mq_client.commands.offsets import CommitOffset
from mq_client.frames import Frame
from mq_client.messages import Message, StoredMessage
from mq_client.pulling import Position
from mq_client.values import MessageQueue
from sandbox import rocketmq
from sandbox.waiting import wait_for
from tests.answers import Answers, Asked
from tests.coordinating import Coordinator
from tests.followers import ROOT, Followers
from tests.real import member_pages, members
from tests.real.members import BOTH, SOON_SECONDS, Line, Scene, Stream, read_by

log = logging.getLogger(__name__)
SESSION_SECONDS = 2.0
HANDLER = """
import os, time

OUT_PATH = os.environ["OUT"]
OUT = os.open(OUT_PATH, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def handle(messages):
    for each in messages:
        time.sleep(0.002)
        if each.body == b"poison":
            raise ValueError("this order has no customer")
        if each.body == b"end":
            if os.path.exists(OUT_PATH + ".ended"):
                continue
            open(OUT_PATH + ".ended", "w").close()
            os._exit(3)
        place = f"{each.broker} {each.queue_id} {each.queue_offset}"
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        line = f"{os.environ['NAME']} {now} {place} {each.body.decode()}\\n"
        os.write(OUT, line.encode())
"""


@pytest.fixture
def relay(rocketmq: rocketmq.RocketMq) -> Iterator[Answers]:
    """A relay between the followers and the real brokers."""
    with Answers(rocketmq.name_server.address) as opened:
        yield opened


@pytest.fixture
def scene(
    relay: Answers, client: Client, topic: str, group: str, tmp_path: Path
) -> Iterator[Scene]:
    """A group without members."""
    with Coordinator(relay.address, topic, group, f"{SESSION_SECONDS:g}s") as coordinator:
        (tmp_path / "handler_of_test.py").write_text(HANDLER)
        found = Scene(client, Followers(coordinator, tmp_path, "handler_of_test:handle"))
        yield found
        found.followers.kill()


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def test_nothing_is_lost_when_a_follower_is_killed_and_one_joins(scene: Scene) -> None:
    killed = scene.start_all(BOTH)["b"]
    scene.send(1000)
    scene.wait_for(lambda lines: len(read_by(lines, "b")) > 100)
    killed.kill()
    killed.wait()
    killed_at = now()
    scene.coordinator.publish({"a": BOTH["a"], "c": BOTH["b"]})
    scene.start("c")
    scene.send(1000)
    lines = scene.wait_for_all()
    members.assert_order_is_kept(lines)
    commit = EACH_QUEUE.seconds
    in_flight = {line.number for line in read_by(lines, "b") if killed_at - line.at < commit + 0.5}
    twice = scene.twice()
    assert {line.number for line in twice} <= in_flight
    taken_over = min(line.at for line in lines if line.broker == "broker-b" and line.at > killed_at)
    assert taken_over - killed_at < SESSION_SECONDS + SOON_SECONDS
    log.info("killed: %d twice, read again after %.2f s", len(twice), taken_over - killed_at)


def test_nothing_comes_twice_when_queues_move_and_followers_leave(scene: Scene) -> None:
    leaving = scene.start_all(BOTH)["b"]
    with Stream(scene):
        scene.wait_for(lambda lines: len(members.by_queue(lines)) == len(scene.queues))
        moved_at = now()
        scene.coordinator.publish({"a": BOTH["b"], "b": BOTH["a"]})
        scene.wait_for(lambda lines: len(members.takeovers(lines, moved_at)) == len(scene.queues))
    leaving.terminate()
    assert leaving.wait(15) == 0
    left_at = now()
    scene.send(1000)
    lines = scene.wait_for_all()
    assert scene.twice() == []
    for each in members.by_queue(lines).values():
        offsets = [line.offset for line in each]
        assert offsets == sorted(offsets)  # no matter which member read each message
    log.info(
        "moved: standstills %s s; left: the other goes on after %.3f s",
        ", ".join(f"{seconds:.3f}" for seconds in members.takeovers(lines, moved_at).values()),
        min(line.at for line in lines if line.broker == "broker-a" and line.at > left_at) - left_at,
    )


def test_a_follower_that_is_frozen_loses_its_queues_and_changes_nothing_later(
    scene: Scene,
) -> None:
    frozen = scene.start_all(BOTH)["b"]
    with members.Offsets(scene) as offsets:
        with Stream(scene):
            scene.wait_for(lambda lines: len(read_by(lines, "b")) > 200)
            frozen.send_signal(signal.SIGSTOP)
            frozen_at = now()

            def is_lent(line: Line) -> bool:
                return (line.member, line.broker) == ("a", "broker-b") and line.at > frozen_at

            lines = scene.wait_for(lambda lines: any(is_lent(line) for line in lines))
            lent = min(line.at for line in lines if is_lent(line))
            time.sleep(SESSION_SECONDS)
            frozen.send_signal(signal.SIGCONT)
            thawed_at = now()
            scene.wait_for(  # the member gets its queues back
                lambda lines: max(line.at for line in read_by(lines, "b")) > thawed_at + 0.5
            )
        lines = scene.wait_for_all()
    assert lent - frozen_at < SESSION_SECONDS + SOON_SECONDS
    assert offsets.backwards == []
    twice = {line.number for line in scene.twice()}
    frozen_work = {line.number for line in read_by(lines, "b")
                   if frozen_at - EACH_QUEUE.seconds - 0.5 < line.at < thawed_at + 0.3}  # fmt: skip
    assert twice <= frozen_work
    late = [line for line in read_by(lines, "b") if thawed_at < line.at < thawed_at + 0.3]
    log.info(
        "frozen: read by the other after %.2f s, %d twice, %d lines within 0.3 s after it went "
        "on, %d sent",
        lent - frozen_at,
        len(twice),
        len(late),
        scene.sent,
    )


def test_a_follower_whose_commits_get_no_answer_handles_no_more_of_its_backlog(
    scene: Scene, relay: Answers
) -> None:
    """So a follower that is cut off repeats little, although many messages wait for its handler."""
    unanswered: dict[MessageQueue, list[int]] = {}

    def withhold(asked: Asked, answer: Frame) -> Frame | None:
        if asked.frame.code != CommitOffset.code:
            return answer
        offset = int(asked.frame.fields["commitOffset"])
        unanswered.setdefault(asked.queue, []).append(offset)
        return None

    scene.send(4000)
    scene.start_all({"a": [*BOTH["a"], *BOTH["b"]]})
    scene.wait_for(lambda lines: len(members.by_queue(lines)) == len(scene.queues))
    relay.after = withhold

    def has_tried_again() -> bool:
        return all(len(unanswered.get(queue, ())) > 1 for queue in scene.queues)

    assert wait_for(has_tried_again, bool)
    handled = members.by_queue(scene.lines())
    for queue, (first, *again) in list(unanswered.items()):
        assert {*again} == {first}
        after = [line for line in handled[queue.broker, queue.id] if line.offset >= first]
        assert len(after) <= FollowerOptions().batch, "only the call that was running may end"
    relay.after = lambda _, answer: answer
    scene.wait_for_all()
    assert scene.twice() == []


def test_a_commit_that_comes_late_is_put_right(scene: Scene) -> None:
    members.check_that_a_late_commit_is_put_right(scene)


def test_a_message_that_fails_for_good_becomes_a_dead_letter(scene: Scene, group: str) -> None:
    scene.coordinator.publish({"a": [("broker-a", "0-1"), ("broker-b", "0-1")]})
    scene.send(40)
    scene.client.send(Message(scene.queues[0].topic, b"poison", keys=("o-17",)),
                      To(scene.queues[0]))  # fmt: skip
    scene.send(40)
    scene.start("a", "--attempts", "2", "--on-failure", "dead-letter")
    scene.wait_for_all()
    letters = wait_for(lambda: read_topic(scene.client, f"%DLQ%{group}"), bool)
    assert scene.client.count_dead_letters(group) == 1
    assert [(each.body, each.keys) for each in letters] == [(b"poison", ("o-17",))]
    assert letters[0].properties["DLQ_ORIGIN_TOPIC"] == scene.queues[0].topic
    assert "this order has no customer" in scene.log("a").read_text()


def test_a_queue_that_stops_at_a_message_holds_up_no_other(scene: Scene) -> None:
    scene.coordinator.publish({"a": [("broker-a", "0-1"), ("broker-b", "0-1")]})
    poisoned = scene.queues[0]
    scene.send(40)
    scene.client.send(Message(poisoned.topic, b"poison"), To(poisoned))
    scene.send(40)
    scene.start("a", "--attempts", "2")
    lines = scene.wait_for(lambda lines: len({line.number for line in lines}) == 70)
    stopped = {line.offset for line in lines if (line.broker, line.queue) == ("broker-a", 0)}
    assert stopped == {*range(10)}
    wait_for(
        lambda: scene.client.find_committed(scene.coordinator.group, poisoned), lambda at: at == 10
    )
    assert scene.client.find_committed(scene.coordinator.group, poisoned) == 10
    scene.followers.running["a"].terminate()
    assert scene.followers.running["a"].wait(5) == 0


def test_a_process_that_ends_in_a_handler_loses_nothing_and_stops_no_queue(scene: Scene) -> None:
    scene.coordinator.publish({"a": [("broker-a", "0-1"), ("broker-b", "0-1")]})
    scene.send(400)
    scene.client.send(Message(scene.queues[0].topic, b"end"), To(scene.queues[0]))
    scene.send(400)
    follower = scene.start("a", "--processes", "2", "--batch", "8")
    lines = scene.wait_for_all()
    again = scene.twice()
    assert len(again) < 8  # the messages of the call that failed
    members.assert_order_is_kept([line for line in lines if line not in again])
    assert "the handler's process ended with code 3" in scene.log("a").read_text()
    processes = find_children(follower.pid)
    assert len(processes) == 2
    follower.terminate()
    assert follower.wait(15) == 0
    assert not any(Path("/proc", each).exists() for each in processes)


def find_children(process: int) -> list[str]:
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def test_offsets_move_on_while_nothing_passes_the_filter(scene: Scene) -> None:
    scene.coordinator.tags = "paid"
    scene.coordinator.publish({"a": [("broker-a", "0-1"), ("broker-b", "0-1")]})
    scene.send(40)
    scene.start("a")
    group = scene.coordinator.group
    committed = wait_for(
        lambda: [scene.client.find_committed(group, each) for each in scene.queues],
        lambda found: found == [10] * 4,
    )
    assert committed == [10] * 4
    assert scene.lines() == []


def read_topic(client: Client, topic: str) -> list[StoredMessage]:
    try:
        offsets = client.list_offsets(topic)
    except errors.MqError:  # the topic does not exist yet
        return []
    positions = [Position(queue, each.min, each.max) for queue, each in offsets.items()]
    return [
        message for batch in client.read("reader", positions) for message in batch.to_messages()
    ]


def test_the_page_works_as_it_stands(
    rocketmq: rocketmq.RocketMq, client: Client, tmp_path: Path, members_port: int
) -> None:
    """The page's files run with `evenkeel run` and two followers; only the addresses differ."""
    page = (ROOT / "docs" / "follower.md").read_text("utf-8")
    manifest, handler = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)[0]
                         for kind in ("yaml", "python"))  # fmt: skip
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "billing.py").write_text(handler)
    manifest = manifest.replace("127.0.0.1:9876", rocketmq.name_server.address)
    follow = [
        sys.executable, "-m", "follower", "shop.billing:handle", "--group", "shop/billing",
        "--coordinator", f"http://127.0.0.1:{members_port}",
        "--token-file", ".evenkeel/members.token",
    ]  # fmt: skip
    with member_pages.play(tmp_path, manifest, members_port, follow) as terminals:
        wait_for(terminals.read, lambda found: all("holds 2 queues" in each for each in found))
        # Two threads print, and their lines may run into each other.
        terminals.check_orders(client, "orders", r"b'order \d'")
        for each in terminals.members:
            each.terminate()
            assert each.wait(15) == 0
            wait_for(lambda: (tmp_path / "run").read_text(), lambda said: "Lent: 2 queues" in said)
