"""Messages are popped, acknowledged, kept, given back and put aside, with both stores."""

import asyncio
import json
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from mq_client import aio, columns, errors, properties
from mq_client.blocking import Client
from mq_client.choosers import RoundRobin
from mq_client.command_line import main
from mq_client.commands.popping import Ack, BatchAck, ChangeInvisible, Pop
from mq_client.frames import Frame
from mq_client.messages import Message
from mq_client.popping import PoppedMessage, Waiting
from mq_client.pulling import Position
from mq_client.values import GroupConfig, MessageQueue, RequestMode
from sandbox import jars
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for
from tests.answers import Answers, Asked, answer_to
from tests.coordinating import Coordinator
from tests.followers import Followers

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

GUIDE = Path(__file__).parents[2] / "docs" / "single-messages.md"
GROUP, BROKER = "billing", "broker-a"
LONG_MS, SHORT_MS = 600_000, 1_000


@pytest.fixture(scope="module", autouse=True)
def group_of_all(popping_mq: RocketMq) -> None:
    with Client(popping_mq.name_server.address) as client:
        client.put_group(GroupConfig(GROUP))


@pytest.fixture
def popper(popping_mq: RocketMq) -> Iterator[Client]:
    with Client(popping_mq.name_server.address) as client:
        yield client


@pytest.fixture
def orders(popping_mq: RocketMq, unique_name: str) -> str:
    popping_mq.create_topics({unique_name: 4})
    return unique_name


def send(client: Client, topic: str, count: int) -> set[bytes]:
    chooser = RoundRobin()
    bodies = [b"%d" % number for number in range(count)]
    for body in bodies:
        client.send([Message(topic, body)], chooser)
    return set(bodies)


def pop_until(pop: Callable[[], list[PoppedMessage]], count: int) -> list[PoppedMessage]:
    """Pop until there are so many messages, or no more come."""
    found: list[PoppedMessage] = []
    wait_for(lambda: found.extend(pop()), lambda _: len(found) >= count)
    return found


def list_bodies(found: list[PoppedMessage]) -> set[bytes]:
    return {each.message.body for each in found}


def test_what_is_acknowledged_never_comes_again_and_what_is_not_does(
    popper: Client, orders: str
) -> None:
    sent = send(popper, orders, 40)
    first = pop_until(
        lambda: popper.pop(GROUP, orders, BROKER, invisible_ms=LONG_MS, poll_ms=100), 40
    )
    assert Counter(each.message.body for each in first) == Counter(sent)
    assert {each.attempt for each in first} == {0}
    popper.acknowledge(GROUP, orders, [each.handle for each in first[:20]])
    popper.acknowledge(GROUP, orders, [first[20].handle])
    for each in first[21:]:
        popper.change_invisible(GROUP, orders, each.handle, SHORT_MS)
    again = pop_until(
        lambda: popper.pop(GROUP, orders, BROKER, invisible_ms=LONG_MS, poll_ms=1000), 19
    )
    assert list_bodies(again) == list_bodies(first[21:])
    assert {each.message.topic for each in again} == {orders}
    assert min(each.attempt for each in again) >= 1
    popper.acknowledge(GROUP, orders, [each.handle for each in again])
    assert popper.pop(GROUP, orders, BROKER, poll_ms=SHORT_MS) == []


def test_popped_messages_make_the_columns_of_pulled_ones(popper: Client, orders: str) -> None:
    """Except for the properties that a broker adds to what it gives to a pop."""
    chooser = RoundRobin()
    for number in range(8):
        popper.send([Message(orders, b"%d" % number * 100, "paid", ("a", "b"))], chooser)
    popped = pop_until(lambda: popper.pop(GROUP, orders, BROKER, poll_ms=100), 8)
    made = columns.convert([each.message for each in popped])
    pulled = []
    for number in range(4):
        batch = popper.pull_batch("others", Position(MessageQueue(orders, BROKER, number), 0))
        assert batch is not None
        pulled.append(batch.to_columns())

    def list_rows(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        for row in rows:
            texts = properties.parse(row.pop("properties"))
            row |= {name: texts[name] for name in (properties.KEYS, properties.TAGS)}
        return sorted(rows, key=lambda row: row["commit_log_offset"])

    assert list_rows([made]) == list_rows(pulled)
    assert {row[properties.KEYS] for row in list_rows([made])} == {"a b"}


def test_a_message_is_kept_or_given_back_and_only_its_newest_handle_counts(
    popper: Client, orders: str
) -> None:
    send(popper, orders, 2)
    kept, given_back = pop_until(
        lambda: popper.pop(GROUP, orders, BROKER, invisible_ms=LONG_MS, poll_ms=100), 2
    )
    newest = popper.change_invisible(GROUP, orders, kept.handle, LONG_MS)
    popper.change_invisible(GROUP, orders, given_back.handle, 0)
    popper.acknowledge(GROUP, orders, [given_back.handle])  # this handle is too old
    [again] = pop_until(
        lambda: popper.pop(GROUP, orders, BROKER, invisible_ms=LONG_MS, poll_ms=1000), 1
    )
    assert (again.message.body, again.attempt) == (given_back.message.body, 1)
    assert popper.pop(GROUP, orders, BROKER, poll_ms=SHORT_MS) == [], "the other is kept"
    popper.acknowledge(GROUP, orders, [newest, again.handle])


def test_a_message_that_nobody_can_handle_goes_to_the_dead_letters(
    popper: Client, orders: str
) -> None:
    [body] = send(popper, orders, 1)
    [found] = pop_until(lambda: popper.pop(GROUP, orders, BROKER, poll_ms=100), 1)
    popper.send_to_dead_letters(GROUP, orders, found)
    assert wait_for(lambda: popper.count_dead_letters(GROUP), bool) == 1
    assert popper.count_dead_letters("a-group-without-dead-letters") == 0
    assert body == found.message.body


def test_a_pop_waits_for_messages_and_is_seen_while_it_waits(popper: Client, orders: str) -> None:
    def count_parked() -> int:
        return popper.count_parked_pops(GROUP, orders)[BROKER]

    async def play() -> list[PoppedMessage]:
        async with aio.Client(popper.directory.name_servers) as client:
            popping = asyncio.create_task(client.pop(GROUP, orders, BROKER, poll_ms=60_000))
            await asyncio.to_thread(wait_for, count_parked, bool)
            await asyncio.to_thread(send, popper, orders, 1)
            found = await popping
            await client.acknowledge(GROUP, orders, [each.handle for each in found])
            return found

    assert list_bodies(asyncio.run(play())) == {b"0"}
    assert count_parked() == 0
    assert not popper.wait_for_messages(GROUP, orders, BROKER, poll_ms=100)
    send(popper, orders, 1)
    assert popper.wait_for_messages(GROUP, orders, BROKER)


def test_the_oldest_message_is_found_without_taking_it(popper: Client, orders: str) -> None:
    def find_oldest() -> Mapping[str, int]:
        return popper.find_oldest_waiting(GROUP, orders)

    assert find_oldest() == {}
    begun_ms = int(time.time() * 1000)
    send(popper, orders, 3)
    first = wait_for(find_oldest, bool)
    assert begun_ms <= first[BROKER] <= time.time() * 1000
    taken = pop_until(lambda: popper.pop(GROUP, orders, BROKER, invisible_ms=LONG_MS), 3)
    assert len(taken) == 3
    assert min(each.message.store_timestamp_ms for each in taken) == first[BROKER]
    assert wait_for(find_oldest, {}.__eq__) == {}
    popper.change_invisible(GROUP, orders, taken[0].handle, 0)
    again = wait_for(find_oldest, bool)
    assert again[BROKER] > first[BROKER]  # it was stored anew when it came back


def test_what_waits_is_counted_and_what_consumers_have_is_not(popper: Client, orders: str) -> None:
    def await_waiting(ready: int, retries: int) -> None:
        """A broker with the file store notes the offset of a pop a little after its answer."""
        wanted = Waiting(ready, retries, parked=0)
        found = wait_for(lambda: popper.count_waiting(GROUP, orders)[BROKER], wanted.__eq__)
        assert found == wanted

    def pop(most: int) -> list[PoppedMessage]:
        return popper.pop(GROUP, orders, BROKER, most=most, invisible_ms=LONG_MS, poll_ms=1000)

    send(popper, orders, 10)
    await_waiting(ready=10, retries=0)
    first = [each for _ in range(6) for each in pop(1)]
    assert len(first) == 6
    await_waiting(ready=4, retries=0)
    for each in first[:2]:
        popper.change_invisible(GROUP, orders, each.handle, 0)
    await_waiting(ready=4, retries=2)
    again = pop_until(lambda: pop(32), 6)
    await_waiting(ready=0, retries=0)
    popper.acknowledge(GROUP, orders, [each.handle for each in (*first[2:], *again)])


def test_an_ordered_queue_waits_until_its_messages_are_acknowledged(
    popper: Client, orders: str
) -> None:
    send(popper, orders, 12)

    def pop() -> list[PoppedMessage]:
        return popper.pop(
            GROUP, orders, BROKER, most=2, invisible_ms=LONG_MS, poll_ms=100, queue_id=1,
            is_ordered=True,
        )  # fmt: skip

    offsets: list[int] = []
    while len(offsets) < 3:
        found = pop_until(pop, 1)
        assert all(each.handle.is_ordered for each in found)
        assert pop() == [], "the queue is blocked"
        popper.acknowledge(GROUP, orders, [each.handle for each in found])
        offsets += [each.message.queue_offset for each in found]
    assert offsets == [0, 1, 2]


def test_the_program_of_the_guide_runs(
    popper: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", ";".join(popper.directory.name_servers))
    [program] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(program, str(GUIDE), "exec"), {})
    shown = capsys.readouterr().out.splitlines()
    assert sorted(shown) == [
        "delivered b'parcel 0'", "delivered b'parcel 2'", "tried again in 10 s b'parcel 1'",
    ]  # fmt: skip


def test_refusals_are_typed(popper: Client, orders: str) -> None:
    send(popper, orders, 1)
    [found] = pop_until(lambda: popper.pop(GROUP, orders, BROKER, poll_ms=100), 1)
    for wrong in (found.handle._replace(queue_id=99), found.handle._replace(offset=10**6)):
        with pytest.raises(errors.HandleError):
            popper.acknowledge(GROUP, orders, [wrong])
    with pytest.raises(errors.TopicUnknownError):
        popper.pop(GROUP, "nothing", BROKER)
    with pytest.raises(errors.NoBrokerError):
        popper.pop(GROUP, orders, "broker-z")
    with pytest.raises(errors.BadParameterError):
        popper.pop(GROUP, orders, BROKER, queue_id=99, poll_ms=0)
    popper.put_group(GroupConfig("paused", is_enabled=False))
    with pytest.raises(errors.NotPermittedError):
        popper.pop("paused", orders, BROKER, poll_ms=0)
    found_groups = popper.list_groups()[BROKER]
    assert not found_groups["paused"].is_enabled
    assert found_groups[GROUP] == GroupConfig(GROUP)
    popper.set_request_mode(GROUP, orders, RequestMode.POP)


def test_a_broker_without_a_timer_wheel_says_what_it_needs(
    client: Client, topic: str, group: str
) -> None:
    client.put_group(GroupConfig(group))
    with pytest.raises(errors.PopsOffError, match="timerWheelEnable=true"):
        client.pop(group, topic, BROKER, poll_ms=0)


def test_the_command_line_pops_and_lists_groups(
    popper: Client, orders: str, capsys: pytest.CaptureFixture[str]
) -> None:
    send(popper, orders, 1)
    server = ["--name-server", ",".join(popper.directory.name_servers), "-o", "json"]
    shown = wait_for(
        lambda: _run([*server, "pop", GROUP, orders, "--ack"], capsys), lambda rows: rows != []
    )
    assert [(row["broker"], row["attempt"], row["body"]) for row in shown] == [(BROKER, 0, "0")]
    groups = _run([*server, "groups"], capsys)
    assert {
        "group": GROUP,
        "broker": BROKER,
        "enabled": True,
        "ordered": False,
        "retries": 16,
    } in groups


def _run(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    assert main(words) == 0
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return rows


HANDLER = """
import os, time

OUT = open(os.environ["OUT"], "a", buffering=1)
store = None


def handle(messages):
    for message in messages:
        OUT.write(f"{os.environ['NAME']} {message.body.decode()} {message.reconsume_times}\\n")
        while os.path.exists(os.environ["OUT"] + ".hold." + os.environ["NAME"]):
            time.sleep(0.01)
        if message.body == b"bad" and message.reconsume_times < 1:
            raise ValueError("not yet")
    if store:
        store(messages)
"""
STORE = """
import psycopg
from follower.unique_keys import keep_keys

@keep_keys(lambda: psycopg.connect({address!r}), "test")
def store(messages, cursor):
    for message in messages:
        cursor.execute("INSERT INTO numbers VALUES (%s)", (message.body.decode(),))
"""
FOLLOWERS = Path(__file__).parents[2] / "docs" / "follower.md"
KEYS = next(
    each
    for each in re.findall(r"^```sql\n(.*?)^```", FOLLOWERS.read_text("utf-8"), re.S | re.M)
    if "evenkeel_keys" in each
)


@dataclass
class Poppers:
    """Followers that pop, and what their handlers were given: member, body, deliveries before."""

    followers: Followers
    out: Path

    def start(self, *names: str) -> None:
        for name in names:
            self.followers.start(name, "--threads", "4", OUT=str(self.out))

    def count_sessions(self) -> int:
        held = self.followers.coordinator.held
        return held.sessions if held is not None else 0

    def hold(self, name: str) -> Path:
        """Let the handler of a member wait as long as this file exists."""
        path = self.out.with_name(f"{self.out.name}.hold.{name}")
        path.touch()
        return path

    def lines(self) -> list[tuple[str, str, int]]:
        text = self.out.read_text() if self.out.exists() else ""
        found = (line.split() for line in text.splitlines())
        return [(member, body, int(times)) for member, body, times in found]

    def wait_for(self, bodies: set[bytes]) -> list[tuple[str, str, int]]:
        wanted = {each.decode() for each in bodies}
        lines = wait_for(self.lines, lambda lines: wanted <= {body for _, body, _ in lines})
        assert wanted <= {body for _, body, _ in lines}, self.followers.logs()
        return lines


@pytest.fixture
def relay(popping_mq: RocketMq) -> Iterator[Answers]:
    """A relay between followers and the real broker."""
    with Answers(popping_mq.name_server.address) as opened:
        yield opened


@pytest.fixture
def poppers(
    popping_mq: RocketMq,
    relay: Answers,
    orders: str,
    unique_name: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Poppers]:
    """Followers of a group by message whose topic is `orders`."""
    (tmp_path / "shop.py").write_text(HANDLER)
    group = f"g-{unique_name}"
    with Client(popping_mq.name_server.address) as client:
        client.put_group(GroupConfig(group))
    settings = {"invisibleTime": request.param, "backoff": "1s"}
    with Coordinator(
        relay.address, orders, group, "2s", drain="300s", messages=settings
    ) as coordinator:
        coordinator.publish({})
        followers = Followers(coordinator, tmp_path, "shop:handle")
        try:
            yield Poppers(followers, tmp_path / "out")
        finally:
            followers.kill()


@pytest.mark.parametrize("poppers", ["60s"], indirect=True)
def test_followers_share_the_messages_of_few_queues_and_none_comes_twice(
    popper: Client, orders: str, poppers: Poppers
) -> None:
    """Also when one of them stops while its handler works, and when one message fails once."""
    hold = poppers.hold("a")
    poppers.start("a", "b", "c")
    wait_for(poppers.count_sessions, lambda count: count == 3)
    sent = send(popper, orders, 200)
    popper.send([Message(orders, b"bad")], RoundRobin())
    wait_for(poppers.lines, lambda lines: {"a", "b", "c"} <= {name for name, _, _ in lines})
    poppers.followers.running["a"].terminate()
    # What its handler has not begun is given back, and others get it while the handler works.
    lines = poppers.wait_for({*sent, b"bad"})
    held = [body for name, body, _ in lines if name == "a"]
    assert 0 < len(held) <= 4
    hold.unlink()
    assert poppers.followers.running["a"].wait(300) == 0
    lines = wait_for(poppers.lines, lambda lines: ("bad", 1) in [line[1:] for line in lines])
    counts = Counter(body for _, body, _ in lines)
    twice = [line for line in lines if counts[line[1]] > 1]
    assert counts == Counter({**{each.decode(): 1 for each in sent}, "bad": 2}), (
        f"{twice} {poppers.followers.logs()}"
    )


@pytest.mark.parametrize("poppers", ["10s"], indirect=True)
def test_a_slow_handler_keeps_its_message_and_a_dead_one_gives_it_to_others(
    popper: Client, orders: str, poppers: Poppers
) -> None:
    hold = poppers.hold("a")
    poppers.start("a")
    send(popper, orders, 1)
    poppers.wait_for({b"0"})
    poppers.start("b")
    popper.send([Message(orders, b"next")], RoundRobin())
    poppers.wait_for({b"next"})
    # Longer than an invisible time: only renewals keep the message from the other member.
    assert not wait_for(
        lambda: [line for line in poppers.lines() if line[:2] == ("b", "0")],
        bool,
        patience_seconds=16.0,
    )
    poppers.followers.running["a"].kill()
    lines = wait_for(poppers.lines, lambda lines: ("b", "0") in [line[:2] for line in lines])
    assert ("b", "0", 1) in lines, poppers.followers.logs()
    hold.unlink()


@pytest.mark.parametrize("poppers", ["10s"], indirect=True)
def test_a_frozen_follower_begins_with_nothing_that_others_have_got(
    popper: Client,
    orders: str,
    poppers: Poppers,
    postgres_address: str,
) -> None:
    """And what its calls still write counts nothing: others have handled these messages."""
    psycopg = pytest.importorskip("psycopg")
    database = psycopg.connect(postgres_address, autocommit=True)
    for each in ("DROP TABLE IF EXISTS evenkeel_keys", KEYS, "DROP TABLE IF EXISTS numbers",
                 "CREATE TABLE numbers (body TEXT)"):  # fmt: skip
        database.execute(each)
    poppers.followers.folder.joinpath("shop.py").write_text(
        HANDLER.replace("store = None", STORE.format(address=postgres_address))
    )
    hold = poppers.hold("a")
    poppers.start("a")
    sent = send(popper, orders, 8)
    begun = wait_for(poppers.lines, lambda lines: len(lines) == 4)
    assert len(begun) == 4, poppers.followers.logs()
    poppers.followers.running["a"].send_signal(signal.SIGSTOP)
    poppers.followers.coordinator.messages = {"invisibleTime": "5m"}  # `b` may be slow
    poppers.followers.coordinator.publish({})
    poppers.start("b")
    lines = wait_for(
        poppers.lines, lambda lines: len({body for name, body, _ in lines if name == "b"}) == 8
    )
    assert len(lines) == 12, poppers.followers.logs()
    hold.unlink()
    poppers.followers.running["a"].send_signal(signal.SIGCONT)
    popper.send([Message(orders, b"next")], RoundRobin())
    poppers.wait_for({*sent, b"next"})
    poppers.followers.running["a"].terminate()
    assert poppers.followers.running["a"].wait(300) == 0
    once = Counter({**{each.decode(): 1 for each in sent}, "next": 1})
    assert Counter(body for _, body, _ in poppers.lines()) == once + Counter(
        body for _, body, _ in begun
    )
    rows = database.execute("SELECT body FROM numbers").fetchall()
    database.close()
    assert Counter(body for (body,) in rows) == once


Fault = Callable[[Frame], Frame | None]


class PopFaults:
    """Changes what the broker answers: each fault once, in its turn."""

    def __init__(self, relay: Answers, group: str, topic: str) -> None:
        self.pops: list[Fault] = [self.refuse, self.reset, self.cut, self.keep, self.repeat]
        self.acks: list[Fault] = [self.refuse, self.lose]
        self.renewals: list[Fault] = [self.refuse]
        self.lies = False
        """Whether the next acknowledgement of one message is confirmed, but not noted."""
        self.places: dict[tuple[int, int], bytes] = {}
        """The bodies of the messages, by queue and offset."""
        self.again: set[bytes] = set()
        """Messages that the follower gets again, although it has handled them."""
        self._relay, self._group, self._topic = relay, group, topic
        self._older: Frame | None = None

    def before(self, asked: Asked) -> Frame | None:
        """Answer in place of the broker."""
        left = self._find(asked)
        if left and left[0] == self.refuse:
            left.pop(0)
            return answer_to(asked, 2, "the broker is busy")
        if (
            self.lies
            and asked.frame.code == Ack.code
            and asked.frame.fields["topic"] == self._topic
        ):
            self.lies = False
            self.again.add(self.places[asked.queue.id, int(asked.frame.fields["offset"])])
            return answer_to(asked, 0, "")
        return None

    def after(self, asked: Asked, answer: Frame) -> Frame | None:
        """Change an answer of the broker."""
        left = self._find(asked)
        is_empty = asked.frame.code == Pop.code and not answer.body
        return answer if is_empty or not left else left.pop(0)(answer)

    def _find(self, asked: Asked) -> list[Fault]:
        match asked.frame.code:
            case Pop.code:
                return self.pops
            case ChangeInvisible.code:
                return self.renewals
            case Ack.code | BatchAck.code:
                return self.acks
            case _:
                return []

    def refuse(self, answer: Frame) -> Frame | None:
        raise AssertionError(f"`before` refuses: {answer}")

    def lose(self, _: Frame) -> None:
        return None

    def reset(self, _: Frame) -> None:
        """Lose an answer together with its connection."""
        Thread(target=self._relay.broker(BROKER).cut).start()

    def cut(self, answer: Frame) -> Frame:
        return replace(answer, body=answer.body[: len(answer.body) // 2])

    def keep(self, answer: Frame) -> Frame:
        self._older = answer
        return answer

    def repeat(self, answer: Frame) -> Frame:
        """Give an older answer once more, in place of a new one."""
        assert self._older is not None
        popped = Pop(self._group, self._topic, 32, 0, 0).read(self._older)
        found = popped.to_messages(self._group, self._topic, BROKER)
        self.again |= {each.message.body for each in found}
        return replace(self._older, opaque=answer.opaque)


@pytest.mark.parametrize("poppers", ["10s"], indirect=True)
def test_whatever_the_broker_answers_each_message_is_handled_and_few_come_again(
    popper: Client, orders: str, poppers: Poppers, relay: Answers
) -> None:
    faults = PopFaults(relay, poppers.followers.coordinator.group, orders)
    relay.before, relay.after = faults.before, faults.after
    poppers.start("a")

    def send_one(body: bytes) -> None:
        stored = popper.send([Message(orders, body)], RoundRobin())
        faults.places[stored.queue.id, stored.offset] = body

    def list_repeated() -> set[bytes]:
        counts = Counter(body.encode() for _, body, _ in poppers.lines())
        return {body for body, count in counts.items() if count > 1}

    while faults.pops or faults.acks:
        for number in range(len(faults.places), len(faults.places) + 20):
            send_one(b"%d" % number)
        poppers.wait_for({*faults.places.values()})
    hold = poppers.hold("a")
    send_one(b"held")
    poppers.wait_for({b"held"})
    assert wait_for(lambda: not faults.renewals, bool)
    hold.unlink()
    before = set(faults.again)
    faults.lies = True
    for number in range(100):  # several messages may be acknowledged together
        send_one(b"late-%d" % number)
        if wait_for(lambda: faults.again - before, bool, patience_seconds=2.0):
            break
    assert faults.again - before, "no message was acknowledged by itself"
    repeated = wait_for(list_repeated, lambda found: faults.again - before <= found)
    assert faults.again - before <= repeated <= faults.again, poppers.followers.logs()
    lines = poppers.wait_for({*faults.places.values()})
    assert {body.encode() for _, body, _ in lines} == {*faults.places.values()}
