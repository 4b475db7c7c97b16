"""
RocketMQ's own Java consumers follow on real brokers: they join, leave, are killed and frozen.

One jar, compiled for Java 8 against the newest client, runs with that client and with the client of
RocketMQ 4.9.
"""

import http.server
import logging
import os
import re
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
import trustme

from contract.assignment import QueueIds
from contract.following import GroupSource, MemberAnswer, MemberRequest
from contract.kinds.groups import OnOutage
from mq_client.blocking import Client
from mq_client.choosers import To
from mq_client.messages import Message
from sandbox import jars, java_follower, rocketmq
from sandbox.waiting import wait_for
from tests import coordinating
from tests.coordinating import Coordinator
from tests.followers import Members
from tests.real import member_pages, members
from tests.real.members import BOTH, SOON_SECONDS, Line, Scene, Stream, read_by

log = logging.getLogger(__name__)
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CLIENTS = {"5.4.0": java_follower.CLIENT,
           "4.9.8": "org.apache.rocketmq:rocketmq-client:4.9.8"}  # fmt: skip
NEWEST = CLIENTS["5.4.0"]
SESSION_SECONDS = 4.0
COMMIT_SECONDS = 0.2
"""The time between two commits, as in Following.java."""
JAVA_OPTIONS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m"]


def compile_program(*sources: Path) -> str:
    """Compile programs that use the follower; return their class path, without a client."""
    follower = str(java_follower.compile_classes())
    libraries = os.pathsep.join([follower, jars.fetch_classpath(NEWEST)])
    return os.pathsep.join([str(jars.compile_sources(sources, libraries)), follower])


@pytest.fixture(scope="module", autouse=True)
def _jar() -> None:
    try:
        for client in CLIENTS.values():
            jars.fetch_classpath(client)
        java_follower.compile_classes()
    except jars.JarsError as error:
        pytest.skip(f"NO FOLLOWER IN JAVA: {error}")


@dataclass
class Consumers(Members):
    """Members that are RocketMQ's consumers."""

    mode: str = "concurrently"
    version: str = "5.4.0"
    options: Sequence[str] = ()
    """Options of the JVM."""

    def make_command(self, name: str) -> list[str]:
        classes = compile_program(HERE / "Follow.java")
        libraries = os.pathsep.join([classes, jars.fetch_classpath(CLIENTS[self.version])])
        return [
            str(jars.find_java()), *JAVA_OPTIONS, *self.options, f"-Duser.home={self.folder}",
            "-cp", libraries, "Follow", self.coordinator.name_server, self.coordinator.topic,
            self.coordinator.group, self.coordinator.url, coordinating.GROUP,
            str(self.token_file), name, str(self.folder / "handled"), self.mode,
        ]  # fmt: skip


@pytest.fixture
def session_seconds() -> float:
    return SESSION_SECONDS


@pytest.fixture
def consumers(
    rocketmq: rocketmq.RocketMq, topic: str, group: str, tmp_path: Path, session_seconds: float
) -> Iterator[Consumers]:
    """A group without members."""
    address = rocketmq.name_server.address
    with Coordinator(address, topic, group, f"{session_seconds:g}s") as coordinator:
        found = Consumers(coordinator, tmp_path)
        yield found
        found.kill()


@pytest.fixture
def scene(client: Client, consumers: Consumers) -> Scene:
    return Scene(client, consumers)


def now() -> float:
    """Return the time, by the clock of Java's nanoTime."""
    return time.monotonic()


UNHURRIED = pytest.mark.parametrize("session_seconds", [8.0], ids=["unhurried"])
"""For tests in which no session may end, however busy the machine is."""


@UNHURRIED
@pytest.mark.parametrize(
    ("version", "mode"),
    [("5.4.0", "concurrently"), ("5.4.0", "orderly"), ("4.9.8", "orderly")],
)
def test_nothing_comes_twice_when_queues_move_and_consumers_leave(
    scene: Scene, consumers: Consumers, version: str, mode: str
) -> None:
    consumers.version, consumers.mode = version, mode
    leaving = scene.start_all(BOTH)["b"]
    with Stream(scene):
        scene.wait_for(is_read_by_owners)
        coordinator = scene.coordinator
        listed = scene.client.list_members(coordinator.group, coordinator.topic)
        assert {each.client_id for each in listed.members} == coordinator.client_ids
        moved_at = now()
        scene.coordinator.publish({"a": BOTH["b"], "b": BOTH["a"]})
        scene.wait_for(lambda lines: len(members.takeovers(lines, moved_at)) == len(scene.queues))
        leaving.terminate()
        leaving.wait(15)
        left_at = now()
        scene.wait_for(lambda lines: find_next(lines, "broker-a", left_at) is not None)
    lines = scene.wait_for_all()
    assert scene.twice() == []
    assert scene.coordinator.left == ["b"]
    standstills = members.takeovers(lines, moved_at).values()
    next_at = find_next(lines, "broker-a", left_at)
    assert next_at is not None
    log.info(
        "%s %s, %d messages: standstills %s s; left: the other goes on after %.3f s",
        version,
        mode,
        scene.sent,
        ", ".join(f"{seconds:.3f}" for seconds in standstills),
        next_at - left_at,
    )


def is_read_by_owners(lines: Sequence[Line]) -> bool:
    """Whether both members have read all queues that BOTH gives them."""
    read = {(line.member, line.broker, line.queue) for line in lines}
    return read >= {(name, owned[0][0], each) for name, owned in BOTH.items() for each in range(2)}


def find_next(lines: Sequence[Line], broker: str, since: float) -> float | None:
    """Find when a message of a broker is first handled after `since`."""
    times = [line.at for line in lines if line.broker == broker and line.at > since]
    return min(times, default=None)


@UNHURRIED
def test_calls_that_are_running_finish_before_their_queue_moves(
    scene: Scene, client: Client
) -> None:
    """One of the calls fails: only its message comes again, from the retry topic."""
    scene.start_all(BOTH)
    with Stream(scene):
        scene.wait_for(is_read_by_owners)
    before = len(scene.wait_for_all())
    for queue, kind in zip(scene.queues, ("slow", "slow bad"), strict=False):
        client.send(Message(queue.topic, f"{kind} {scene.sent}".encode()), To(queue))
        scene.sent += 1
    slow = scene.sent - 2
    scene.send(40)
    scene.wait_for(lambda lines: len(lines) >= before + 40)
    moved_at = now()
    scene.coordinator.publish({"a": BOTH["b"], "b": BOTH["a"]})

    def list_moved(lines: Sequence[Line]) -> list[Line]:
        return [line for line in read_by(lines, "b")
                if (line.broker, line.queue) == ("broker-a", 0) and line.at > moved_at]  # fmt: skip

    with Stream(scene):
        scene.wait_for(lambda lines: bool(list_moved(lines)))
    lines = scene.wait_for_all()
    assert scene.twice() == []
    (call,) = [line for line in lines if line.number == slow]
    assert call.member == "a"
    assert min(line.at for line in list_moved(lines)) > call.at


def test_what_a_killed_consumer_handled_last_comes_again_and_nothing_is_lost(
    scene: Scene,
) -> None:
    killed = scene.start_all(BOTH)["b"]
    with Stream(scene):
        scene.wait_for(lambda lines: len(read_by(lines, "b")) > 100)
        killed.kill()
        killed.wait()
        killed_at = now()
        scene.wait_for(lambda lines: find_next(lines, "broker-b", killed_at) is not None)
    lines = scene.wait_for_all()
    in_flight = {
        line.number for line in read_by(lines, "b") if killed_at - line.at < COMMIT_SECONDS + 0.5
    }
    twice = scene.twice()
    assert {line.number for line in twice} <= in_flight
    next_at = find_next(lines, "broker-b", killed_at)
    assert next_at is not None
    assert next_at - killed_at < SESSION_SECONDS + SOON_SECONDS
    log.info("killed: %d twice, read again after %.2f s", len(twice), next_at - killed_at)


@pytest.mark.parametrize("version", CLIENTS)
def test_a_consumer_that_is_frozen_loses_its_queues_and_changes_nothing_later(
    scene: Scene, consumers: Consumers, version: str
) -> None:
    consumers.version = version
    frozen = scene.start_all(BOTH)["b"]
    with members.Offsets(scene) as offsets:
        with Stream(scene):
            scene.wait_for(lambda lines: len(read_by(lines, "b")) > 100)
            frozen.send_signal(signal.SIGSTOP)
            frozen_at = now()
            lines = scene.wait_for(lambda lines: find_lent(lines, frozen_at) is not None)
            lent = find_lent(lines, frozen_at)
            assert lent is not None
            time.sleep(SESSION_SECONDS)
            frozen.send_signal(signal.SIGCONT)
            thawed_at = now()
            scene.wait_for(  # the thawed member gets its queues back
                lambda lines: max(line.at for line in read_by(lines, "b")) > thawed_at + 0.5
            )
        lines = scene.wait_for_all()
    # The client checks the time, and then gives the bytes of a commit to another thread. If the
    # process is frozen in between, one commit can come late. The queue's holder corrects it.
    for queue, _, offset in offsets.backwards:
        handled = [line.offset for line in members.by_queue(read_by(lines, "b"))[queue.broker,
                   queue.id] if line.at < frozen_at + SESSION_SECONDS]  # fmt: skip
        assert offset <= max(handled, default=-1) + 1
    assert len(offsets.backwards) <= 1
    members.check_that_all_is_committed(scene)
    assert lent - frozen_at < SESSION_SECONDS + SOON_SECONDS
    twice = {line.number for line in scene.twice()}
    frozen_work = {line.number for line in read_by(lines, "b")
                   if frozen_at - COMMIT_SECONDS - 0.5 < line.at < thawed_at + 0.3}  # fmt: skip
    assert twice <= frozen_work
    late = [line for line in read_by(lines, "b") if thawed_at < line.at < thawed_at + 0.3]
    log.info(
        "%s frozen: read by the other after %.2f s, %d twice, %d lines within 0.3 s after it "
        "went on, %d sent",
        version,
        lent - frozen_at,
        len(twice),
        len(late),
        scene.sent,
    )


@UNHURRIED
@pytest.mark.parametrize("are_together", [True, False], ids=["rolling", "recreate"])
def test_plain_consumers_are_replaced_by_members_and_no_queue_is_left_out(
    scene: Scene, consumers: Consumers, are_together: bool
) -> None:
    """This is the migration of docs/moving.md."""
    scene.coordinator.publish(BOTH)
    consumers.mode = "plain"
    old = {name: scene.start(name) for name in ("old-a", "old-b")}
    with Stream(scene):
        scene.wait_for(lambda lines: all(read_by(lines, name) for name in old))
        if not are_together:
            for process in old.values():
                stop(process)
        committed = {queue: scene.client.find_committed(scene.coordinator.group, queue) or 0
                     for queue in scene.queues}  # fmt: skip
        consumers.mode = "concurrently"
        for name, process in zip(("a", "b"), old.values(), strict=True):
            scene.start(name)
            await_reader(scene, name)
            stop(process)
        stopped_at = now()
        scene.wait_for(  # members read all queues from now on
            lambda lines: all(
                each[-1].at > stopped_at + 0.5 and each[-1].member in ("a", "b")
                for each in members.by_queue(lines).values()
            )
        )
    scene.wait_for_all()
    # The plain consumers read messages twice when the second one joins: these do not count.
    again = [line for line in scene.twice() if line.member not in old]
    log.info("together: %s, %d of %d again", are_together, len(again), scene.sent)
    if not are_together:
        numbers = [line.number for line in scene.lines() if line.member not in old]
        assert len(numbers) == len(set(numbers))
        # Plain consumers send their last commits without waiting for answers: some may be lost.
        for queue, lines in members.by_queue(again).items():
            (offset,) = [committed[each] for each in scene.queues if each[1:] == queue]
            assert min(line.offset for line in lines) >= offset
    members.check_that_all_is_committed(scene)


def await_reader(scene: Scene, name: str) -> None:
    scene.wait_for(lambda lines: len(read_by(lines, name)) > 50)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


@UNHURRIED
def test_a_commit_that_comes_late_is_put_right(scene: Scene) -> None:
    members.check_that_a_late_commit_is_put_right(scene)


@UNHURRIED
@pytest.mark.parametrize("version", CLIENTS)
def test_queues_that_are_added_are_read_before_the_client_looks_for_them(
    scene: Scene, consumers: Consumers, rocketmq: rocketmq.RocketMq, version: str
) -> None:
    consumers.version, consumers.options = version, ["-Dpoll=600000"]
    scene.coordinator.publish({"a": [*BOTH["a"], *BOTH["b"]]})
    scene.start("a")
    scene.send(40)
    scene.wait_for_all()
    rocketmq.create_topics({scene.coordinator.topic: 3})
    scene.queues += [queue._replace(id=2) for queue in scene.queues if queue.id == 0]
    scene.coordinator.publish({"a": [("broker-a", "0-2"), ("broker-b", "0-2")]})
    scene.send(60)
    scene.wait_for_all()


@UNHURRIED
@pytest.mark.parametrize("version", CLIENTS)
def test_nothing_comes_twice_when_the_client_drops_a_queue_by_itself(
    scene: Scene, consumers: Consumers, version: str
) -> None:
    consumers.version, consumers.options = version, ["-Ddrop=300"]
    scene.coordinator.publish({"a": [*BOTH["a"], *BOTH["b"]]})
    scene.start("a")
    with Stream(scene):
        wait_for(
            lambda: scene.log("a").read_text().count("it is read anew"), lambda count: count > 9
        )
    scene.wait_for_all()
    assert scene.twice() == []


def find_lent(lines: Sequence[Line], since: float) -> float | None:
    """Find when `a` first reads a queue that `b` owns, after `since`."""
    return find_next(read_by(lines, "a"), "broker-b", since)


def test_a_consumer_stops_at_the_end_of_its_session_while_the_coordinator_is_away(
    scene: Scene,
) -> None:
    scene.coordinator.publish({"a": [*BOTH["a"], *BOTH["b"]]})
    scene.start("a")
    with Stream(scene):
        scene.wait_for(lambda lines: len(lines) > 100)
        scene.coordinator.stop()
        stopped_at = now()
        time.sleep(2 * SESSION_SECONDS)
        assert max(line.at for line in scene.lines()) < stopped_at + SESSION_SECONDS
    committed = {queue: scene.client.find_committed(scene.coordinator.group, queue)
                 for queue in scene.queues}  # fmt: skip
    handled = members.by_queue(scene.lines())
    for queue, offset in committed.items():
        assert offset is not None
        assert offset <= max(line.offset for line in handled[queue.broker, queue.id]) + 1
    assert "the session is over" in scene.log("a").read_text()


@pytest.mark.parametrize("version", CLIENTS)
def test_the_rules_that_need_no_broker(version: str) -> None:
    """Checks.java has the checks."""
    assert "all checks passed" in run_check(version, "Checks")


def run_check(version: str, name: str, *more: str | Path) -> str:
    """Run a program of the jar's own tests; return what it prints."""
    classes = compile_program(*sorted((ROOT / "clients/java/src/test/java").rglob("*.java")))
    libraries = os.pathsep.join([classes, jars.fetch_classpath(CLIENTS[version])])
    command = [str(jars.find_java()), *JAVA_OPTIONS, "-cp", libraries]
    done = subprocess.run(
        [*command, f"dev.evenkeel.rocketmq.{name}", *more],
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    return done.stdout


class OneAnswer(http.server.BaseHTTPRequestHandler):
    """A coordinator that grants one queue, and records the requests."""

    asked: ClassVar[list[tuple[str, str, str | None, bytes]]] = []

    def do_POST(self) -> None:
        self._note()
        queues = [QueueIds("orders", "broker-a", "3")]
        source = GroupSource("billing", [])
        answer = MemberAnswer(1, 1, queues, 10.0, 30.0, OnOutage.STOP, source)
        body = msgspec.json.encode(answer)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_DELETE(self) -> None:
        self._note()
        self.send_response(204)
        self.end_headers()

    def _note(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append((self.command, self.path, self.headers["Authorization"], body))

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_a_coordinator_is_asked_over_tls_if_its_certificate_is_trusted(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ours.pem")
    trustme.CA().cert_pem.write_to_path(tmp_path / "theirs.pem")
    (tmp_path / "token").write_text("secret\n")
    OneAnswer.asked.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), OneAnswer) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"https://127.0.0.1:{server.server_port}"
            trusted, refused = (
                run_check("5.4.0", "AskOnce", url, tmp_path / "token", tmp_path / authorities)
                for authorities in ("ours.pem", "theirs.pem")
            )
        finally:
            server.shutdown()
            thread.join()
    assert trusted == "may read orders@broker-a 3\n"
    assert "cannot ask" in refused
    path = "/v1/groups/shop/billing/members/a%20b"
    post, delete = OneAnswer.asked
    assert post[:3] == ("POST", path, "Bearer secret")
    assert msgspec.json.decode(post[3], type=MemberRequest) == MemberRequest(
        "s", 1, wait_seconds=0.0
    )
    assert delete == ("DELETE", f"{path}?session=s", "Bearer secret", b"")


def test_the_page_works_as_it_stands(
    rocketmq: rocketmq.RocketMq, client: Client, tmp_path: Path, members_port: int
) -> None:
    """The pages' files run with `evenkeel run` and two consumers; addresses and names differ."""
    docs = ROOT / "docs"
    (program,) = re.findall(r"```java\n(.*?)```", (docs / "java.md").read_text("utf-8"), re.DOTALL)
    (manifest, *_) = re.findall(
        r"```yaml\n(.*?)```", (docs / "follower.md").read_text("utf-8"), re.DOTALL
    )
    address = rocketmq.name_server.address
    for given, here in (("127.0.0.1:9876", address), ("9410", str(members_port)),
                        ('"orders"', '"java-orders"'), ('"billing"', '"java-billing"'),
                        ("shop/billing", "shop/java-billing")):  # fmt: skip
        assert given in program
        program = program.replace(given, here)
    for given, here in (("127.0.0.1:9876", address), ("name: orders", "name: java-orders"),
                        ("name: billing", "name: java-billing")):  # fmt: skip
        assert given in manifest
        manifest = manifest.replace(given, here)
    (tmp_path / "Billing.java").write_text(program)
    rocketmq.create_topics({"java-orders": 2})
    # Without a commit, the client of a new group would skip messages sent before it first looks.
    client.commit("java-billing", dict.fromkeys(client.list_offsets("java-orders"), 0))
    libraries = os.pathsep.join(
        [compile_program(tmp_path / "Billing.java"), jars.fetch_classpath(NEWEST)]
    )
    consume = [str(jars.find_java()), *JAVA_OPTIONS, f"-Duser.home={tmp_path}", "-cp", libraries,
               "Billing"]  # fmt: skip
    with member_pages.play(tmp_path, manifest, members_port, consume) as terminals:
        wait_for(
            lambda: [each.splitlines() for each in terminals.read()],
            lambda found: all(each and each[-1].count("@broker") == 1 for each in found),
        )
        terminals.check_orders(client, "java-orders", r"order \d")
        for each in terminals.members:
            each.terminate()
            each.wait(15)
