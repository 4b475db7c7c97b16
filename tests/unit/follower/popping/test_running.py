"""A member that pops, with a broker in memory that fails as the test says."""

import asyncio
import contextlib
import functools
import itertools
import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import pyarrow as pa
import pytest

from contract.following import GroupSource, PopTerms
from follower.clock import clock
from follower.handling import Handler, Handling
from follower.metrics import Metrics
from follower.options import FollowerOptions, OnFailure
from follower.popping import invisible_time, running
from follower.popping.running import Popping
from mq_client import columns, errors
from mq_client.filters import EVERYTHING, Filter
from mq_client.messages import Message, StoredMessage
from mq_client.popping import PopHandle, PoppedMessage, PopSource
from mq_client.values import BrokerRoute, MessageQueue, Route

BLANK = StoredMessage("orders", "broker-a", 0, 0, b"", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)
AWAY = errors.NoBrokerError("the broker is away")
NO_TOPIC = errors.TopicUnknownError("POP_MESSAGE", "broker-a:1", 17, "no such topic")
ROUTE = Route(
    "orders",
    tuple(BrokerRoute(name, "c", {0: f"{name}:1"}, 4, 4, 6) for name in ("broker-a", "broker-b")),
)


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on an event loop of its own."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


class Broker:
    """Two brokers in memory, and all that the member has asked of them."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[PoppedMessage]] = {"broker-a": [], "broker-b": []}
        self.news = asyncio.Event()
        self.acked: Counter[str] = Counter()
        """The handles that were acknowledged."""
        self.changed: list[tuple[str, int]] = []
        """The bodies whose time was changed, and the new time."""
        self.buried: list[bytes] = []
        self.letters: list[Message] = []
        self.failures: dict[str, list[errors.MqError]] = {
            "pop": [],
            "ack": [],
            "change": [],
            "bury": [],
        }
        """The errors that the next requests get."""
        self.away: set[str] = set()
        """Brokers that get no acknowledgement."""
        self.asked: list[tuple[str, int]] = []
        """The brokers of the pops, and how many messages each may return."""
        self.popped_from: dict[tuple[PopSource, str], Filter] = {}
        """The filters of the pops, by source and broker."""
        self.missing: set[tuple[PopSource, str]] = set()
        """Topics that do not exist."""
        self.may_change = asyncio.Event()
        self.may_change.set()
        self.clients: list[_Client] = []
        """The clients that are open."""
        self.renewals = 0

    def put(
        self, *bodies: bytes, broker: str = "broker-a", attempt: int = 0, error: str = ""
    ) -> None:
        for body in bodies:
            handle = PopHandle(0, 0, 60_000, 0, PopSource.TOPIC, broker, 0, int(body))
            message = BLANK._replace(broker=broker, body=body, queue_offset=int(body))
            self.waiting[broker].append(PoppedMessage(message, handle, attempt, error))
        self.news.set()

    def open(self) -> Any:
        self.clients.append(_Client(self))
        return self.clients[-1]

    def fail(self, what: str) -> None:
        if self.failures[what]:
            raise self.failures[what].pop(0)

    def make_handle(self, old: PopHandle) -> PopHandle:
        self.renewals += 1
        return old._replace(start=old.offset, popped_at_ms=self.renewals)


class _Client:
    directory = None

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def find_route(self, topic: str, max_age: float) -> Route:
        return ROUTE

    async def pop(
        self,
        group: str,
        topic: str,
        broker: str,
        *,
        most: int,
        source: PopSource,
        wanted: Filter,
        **_: object,
    ) -> list[PoppedMessage]:
        assert (group, topic) == ("billing", "orders")
        self._broker.asked.append((broker, most))
        self._broker.popped_from[source, broker] = wanted
        if (source, broker) in self._broker.missing:
            raise NO_TOPIC
        while True:
            self._broker.fail("pop")
            found = self._broker.waiting[broker][:most]
            del self._broker.waiting[broker][:most]
            if found:
                return found
            self._broker.news.clear()
            await self._broker.news.wait()

    async def acknowledge(self, group: str, topic: str, handles: Sequence[PopHandle]) -> None:
        self._broker.fail("ack")
        if handles[0].broker in self._broker.away:
            raise AWAY
        self._broker.acked.update(map(str, handles))

    async def change_invisible(
        self, group: str, topic: str, handle: PopHandle, invisible_ms: int
    ) -> PopHandle:
        self._broker.fail("change")
        self._broker.changed.append((str(handle), invisible_ms))
        await self._broker.may_change.wait()
        return self._broker.make_handle(handle)

    async def run(self, flow: Any) -> None:
        popped: PoppedMessage = flow.gi_frame.f_locals["popped"]
        self._broker.fail("bury")
        self._broker.buried.append(popped.message.body)

    async def send(self, messages: Sequence[Message], chooser: object, tries: int) -> None:
        self._broker.fail("bury")
        self._broker.letters += messages

    async def close(self) -> None:
        if self in self._broker.clients:
            self._broker.clients.remove(self)


class Scene:
    """A member that pops."""

    def __init__(
        self,
        batch: int = 1,
        handler: Handler | None = None,
        *,
        leftovers: bool = False,
        **options: Any,
    ) -> None:
        self.broker = Broker()
        self.metrics = Metrics()
        self.calls: list[list[bytes]] = []
        self.bad: set[bytes] = set()
        self.ended = 0
        self.gate = asyncio.Event()
        self.gate.set()
        chosen = FollowerOptions(threads=4, **options)
        self.handling = Handling(handler or self.handle, chosen, self.metrics)
        terms = PopTerms(["orders"], 60.0, batch, 3, 10.0)
        tags = {"orders": "paid"}
        source = GroupSource("billing", ["mq:9876"], tags, messages=terms)
        if leftovers:
            source = GroupSource("billing", ["mq:9876"], tags, leftovers=terms)
        self.popping = Popping(source, terms, self.broker.open, self.handling, chosen, self.metrics)

    async def handle(self, messages: Sequence[StoredMessage]) -> None:
        self.calls.append([each.body for each in messages])
        await self.gate.wait()
        self.ended += 1
        if any(each.body in self.bad for each in messages):
            raise ValueError("bad order")

    @contextlib.asynccontextmanager
    async def begun(self) -> AsyncIterator[Broker]:
        self.popping.start()
        try:
            yield self.broker
        finally:
            await self.popping.close()
        assert not self.broker.clients

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"evenkeel_follower_{name}", labels)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewals are due at once, although the invisible time is long."""
    monkeypatch.setattr(invisible_time, "RENEW_SHARE", 1e-4)
    monkeypatch.setattr(invisible_time, "RETRY_SHARE", 1e-4)


def handle_of(number: int, broker: str = "broker-a") -> str:
    return f"0 0 60000 0 0 {broker} 0 {number}"


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_so():  # noqa: ASYNC110  # no event reports it
            await asyncio.sleep(0.002)


@on_a_loop
async def test_what_is_handled_is_acknowledged_once() -> None:
    scene = Scene()
    async with scene.begun() as broker:
        broker.put(b"1", b"2")
        broker.put(b"3", broker="broker-b")
        await until(lambda: broker.acked.total() == 3)
    assert broker.acked == Counter([handle_of(1), handle_of(2), handle_of(3, "broker-b")])
    assert scene.value("handled_messages_total") == 3


@on_a_loop
async def test_a_handler_may_get_popped_messages_as_arrow_columns() -> None:
    found: list[pa.RecordBatch] = []

    async def handle(batch: pa.RecordBatch) -> None:
        found.append(batch)
        if batch.num_rows > 1:
            raise ValueError("too many")

    scene = Scene(2, handle, arrow=True)
    async with scene.begun() as broker:
        broker.put(b"1", b"2")
        await until(lambda: broker.acked.total() == 2)
    assert [each["body"].to_pylist() for each in found] == [[b"1", b"2"], [b"1"], [b"2"]]
    assert {each.schema for each in found} == {columns.SCHEMA}


@on_a_loop
async def test_leftovers_are_popped_from_the_retries_alone_whatever_the_filter_says() -> None:
    scene = Scene(leftovers=True)
    gone = (PopSource.RETRIES_V2, "broker-a")
    scene.broker.missing = {gone}
    async with scene.begun() as broker:
        broker.put(b"1")
        broker.put(b"2", broker="broker-b")
        await until(lambda: broker.acked.total() == 2)
        await until(lambda: gone in broker.popped_from)
    retries = (PopSource.RETRIES_V1, PopSource.RETRIES_V2)
    everywhere = dict.fromkeys(itertools.product(retries, ["broker-a", "broker-b"]), EVERYTHING)
    assert broker.popped_from == everywhere
    assert not scene.value("broker_failures_total", what="pop"), "a missing topic is none"


@on_a_loop
async def test_a_message_that_fails_comes_again_later_each_time() -> None:
    scene = Scene()
    scene.bad = {b"1"}
    async with scene.begun() as broker:
        broker.put(b"1")
        await until(lambda: len(broker.changed) == 1)
        broker.put(b"1", attempt=1)
        await until(lambda: len(broker.changed) == 2)
    assert broker.changed == [(handle_of(1), 10_000), (handle_of(1), 20_000)]
    assert not broker.acked
    assert scene.value("handler_failures_total") == 2


@on_a_loop
async def test_of_a_call_that_fails_each_message_is_tried_alone() -> None:
    scene = Scene(batch=3)
    scene.bad = {b"2"}
    async with scene.begun() as broker:
        broker.put(b"1", b"2", b"3")
        await until(lambda: broker.acked.total() == 2 and len(broker.changed) == 1)
    assert scene.calls == [[b"1", b"2", b"3"], [b"1"], [b"2"], [b"3"]]
    assert broker.changed == [(handle_of(2), 10_000)]
    assert broker.acked == Counter([handle_of(1), handle_of(3)])


@on_a_loop
async def test_after_the_last_attempt_a_message_goes_to_the_dead_letters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.bad = {b"1"}
    async with scene.begun() as broker:
        broker.put(b"1", attempt=2)
        await until(lambda: broker.acked.total() == 1)
    assert broker.buried == [b"1"]
    assert broker.changed == []
    assert scene.value("given_up_messages_total", to="dead-letter") == 1
    assert "the handler failed in 3 of 3 attempts: ValueError: bad order" in caplog.text


@pytest.mark.parametrize(("attempt", "error"), [(6, ""), (0, "its CRC is wrong")])
@on_a_loop
async def test_what_came_too_often_or_cannot_be_read_is_not_handled(
    attempt: int, error: str
) -> None:
    scene = Scene(batch=2)
    async with scene.begun() as broker:
        broker.waiting["broker-a"].extend(_make(b"1", 0, ""))
        broker.put(b"2", attempt=attempt, error=error)
        await until(lambda: broker.acked.total() == 2)
    assert scene.calls == [[b"1"]]
    assert broker.buried == [b"2"]


def _make(body: bytes, attempt: int, error: str) -> list[PoppedMessage]:
    broker = Broker()
    broker.put(body, attempt=attempt, error=error)
    return broker.waiting["broker-a"]


@on_a_loop
async def test_a_dead_letter_that_cannot_be_stored_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "FIRST_PAUSE", 0.001)
    scene = Scene(on_failure=OnFailure.DEAD_LETTER, dead_letter="failed")
    scene.bad = {b"1"}
    scene.broker.failures["bury"] = [AWAY, AWAY]
    async with scene.begun() as broker:
        broker.put(b"1", attempt=2)
        await until(lambda: broker.acked.total() == 1)
    assert [(each.topic, each.body) for each in broker.letters] == [("failed", b"1")]
    assert scene.value("broker_failures_total", what="bury") == 2


@on_a_loop
async def test_a_message_may_be_skipped_instead() -> None:
    scene = Scene(on_failure=OnFailure.SKIP)
    scene.bad = {b"1"}
    async with scene.begun() as broker:
        broker.put(b"1", attempt=2)
        await until(lambda: broker.acked.total() == 1)
    assert not broker.buried
    assert scene.value("given_up_messages_total", to="skipped") == 1


@on_a_loop
async def test_while_the_handler_works_its_messages_are_renewed_and_the_newest_handle_counts(
    often: None,
) -> None:
    scene = Scene()
    scene.gate.clear()
    scene.broker.failures["change"] = [AWAY]
    async with scene.begun() as broker:
        broker.put(b"1")
        await until(lambda: len(broker.changed) >= 2)
        scene.gate.set()
        await until(lambda: broker.acked.total() == 1)
    assert broker.changed[:2] == [(handle_of(1), 60_000), ("1 1 60000 0 0 broker-a 0 1", 60_000)]
    assert [*broker.acked] == [f"1 {broker.renewals} 60000 0 0 broker-a 0 1"]
    assert scene.value("broker_failures_total", what="renew") == 1


@on_a_loop
async def test_an_acknowledgement_waits_for_a_renewal_that_is_under_way(often: None) -> None:
    scene = Scene()
    scene.gate.clear()
    scene.broker.may_change.clear()
    async with scene.begun() as broker:
        broker.put(b"1")
        await until(lambda: len(broker.changed) == 1)
        scene.gate.set()
        await until(lambda: scene.ended == 1)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not broker.acked
        broker.may_change.set()
        await until(lambda: broker.acked.total() == 1)
    assert len(broker.changed) == 1  # no second request before the answer to the first one
    assert [*broker.acked] == ["1 1 60000 0 0 broker-a 0 1"]


@on_a_loop
async def test_an_answer_that_is_read_late_is_as_old_as_the_brokers_clock_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    async with scene.begun() as broker:
        broker.put(b"1")
        await until(lambda: broker.acked.total() == 1)
        now = clock()  # the next pop is under way, and the process freezes
        monkeypatch.setattr(running, "clock", lambda: now + 61)
        broker.put(b"2")
        await until(lambda: scene.value("late_messages_total") == 1)
    assert scene.calls == [[b"1"]]


@on_a_loop
async def test_a_process_that_was_frozen_does_not_begin_with_old_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    scene.gate.clear()
    async with scene.begun() as broker:
        broker.put(*(b"%d" % number for number in range(4)))
        await until(lambda: len(scene.calls) == 4)
        broker.put(b"4", b"5")
        await until(lambda: not broker.waiting["broker-a"])
        now = clock()
        monkeypatch.setattr(running, "clock", lambda: now + 61)
        scene.gate.set()
        await until(lambda: broker.acked.total() == 4)
        await until(lambda: scene.value("late_messages_total") == 2)
    assert len(scene.calls) == 4


@on_a_loop
async def test_a_broker_that_is_away_delays_no_other_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(running, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(running, "LONGEST_PAUSE", 0.001)
    caplog.set_level(logging.INFO)
    scene = Scene()
    async with scene.begun() as broker:
        broker.away.add("broker-a")
        broker.put(b"1")
        broker.put(b"2", broker="broker-b")
        await until(lambda: broker.acked == Counter([handle_of(2, "broker-b")]))
        broker.away.clear()
        await until(lambda: broker.acked[handle_of(1)] == 1)
        await until(lambda: "orders@broker-a: acknowledges again" in caplog.text)
    assert sorted(scene.calls) == [[b"1"], [b"2"]]


@on_a_loop
async def test_a_pop_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "FIRST_PAUSE", 0.001)
    scene = Scene()
    scene.broker.failures["pop"] = [AWAY, errors.GroupUnknownError("POP", "a", 26, "none")]
    async with scene.begun() as broker:
        broker.put(b"1")
        await until(lambda: broker.acked.total() == 1)
    assert scene.value("broker_failures_total", what="pop") == 2


@on_a_loop
async def test_a_member_that_stops_gives_back_what_waits_and_finishes_what_runs() -> None:
    scene = Scene()
    scene.gate.clear()
    async with scene.begun() as broker:
        broker.put(*(b"%d" % number for number in range(6)))
        await until(lambda: len(scene.calls) == 4)
        await until(lambda: not broker.waiting["broker-a"])
        stopping = asyncio.create_task(scene.popping.stop(30.0))
        await until(lambda: len(broker.changed) == 2)
        assert not stopping.done()
        broker.put(b"7")
        scene.gate.set()
        await stopping
    assert broker.changed == [(handle_of(4), 0), (handle_of(5), 0)]
    assert broker.acked == Counter(handle_of(number) for number in range(4))
    assert len(broker.waiting["broker-a"]) == 1  # nothing is popped any more


@on_a_loop
async def test_what_came_often_without_a_call_is_still_handled() -> None:
    scene = Scene()
    async with scene.begun() as broker:
        broker.put(b"1", attempt=5)
        await until(lambda: broker.acked.total() == 1)
    assert scene.calls == [[b"1"]]


@on_a_loop
async def test_a_member_that_is_cancelled_begins_nothing_more() -> None:
    scene = Scene()
    scene.gate.clear()
    async with scene.begun() as broker:
        broker.put(*(b"%d" % number for number in range(6)))
        await until(lambda: len(scene.calls) == 4)
        await until(lambda: not broker.waiting["broker-a"])
        await scene.popping.close()
        scene.gate.set()
        for _ in range(10):
            await asyncio.sleep(0)
    assert len(scene.calls) == 4
    assert not broker.acked


@on_a_loop
async def test_after_the_time_of_a_message_nothing_is_done_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another member may have got it, so to give it back would make a copy."""
    scene = Scene()
    scene.bad = {b"1", b"2"}
    scene.gate.clear()
    async with scene.begun() as broker:
        broker.put(b"1")
        broker.put(b"2", attempt=2)
        await until(lambda: len(scene.calls) == 2)
        now = clock()
        monkeypatch.setattr(running, "clock", lambda: now + 61)
        scene.gate.set()
        await until(lambda: scene.ended == 2)
        broker.put(b"3")  # its end shows that the others have ended too
        await until(lambda: scene.value("late_messages_total") == 3)
    assert not broker.changed
    assert not broker.buried


@on_a_loop
async def test_single_messages_that_have_not_begun_are_given_back_too() -> None:
    scene = Scene(batch=3)
    scene.bad = {b"1"}
    scene.gate.clear()
    async with scene.begun() as broker:
        broker.put(b"1", b"2", b"3")
        await until(lambda: len(scene.calls) == 1)
        stopping = asyncio.create_task(scene.popping.stop(30.0))
        await until(lambda: len(broker.clients) == 1)  # it has begun to stop
        scene.gate.set()
        await stopping
    assert scene.calls == [[b"1", b"2", b"3"]]
    assert sorted(broker.changed) == [(handle_of(number), 0) for number in (1, 2, 3)]


@on_a_loop
async def test_a_bug_ends_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LONGEST_PAUSE", 0.001)
    scene = Scene()
    bugs = {what: [RuntimeError("a bug")] for what in ("pop", "ack", "bury")}
    scene.broker.failures |= bugs  # type: ignore[arg-type]
    scene.bad = {b"1"}
    async with scene.begun() as broker:
        broker.put(b"1", attempt=2)
        broker.put(b"2")
        await until(lambda: scene.value("handled_messages_total") == 1)
        broker.put(b"3")
        await until(lambda: handle_of(3) in broker.acked)
        await until(lambda: not scene.popping._lots.held)


@on_a_loop
async def test_a_refused_acknowledgement_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "FIRST_PAUSE", 0.001)
    scene = Scene()
    scene.broker.failures["ack"] = [errors.BusyError("ACK", "a:1", 2, "busy")]
    async with scene.begun() as broker:
        broker.put(b"1")
        await until(lambda: broker.acked.total() == 1)


@on_a_loop
async def test_a_dead_letter_that_is_refused_comes_again_much_later() -> None:
    scene = Scene()
    scene.bad = {b"1"}
    scene.broker.failures["bury"] = [errors.UsageError("too large")]
    async with scene.begun() as broker:
        broker.put(b"1", attempt=2)
        await until(lambda: len(broker.changed) == 1)
    assert broker.changed == [(handle_of(1), 7_200_000)]
    assert not broker.acked


@on_a_loop
async def test_brokers_share_the_room() -> None:
    scene = Scene(batch=4)  # room for 16 messages at first
    scene.gate.clear()
    async with scene.begun() as broker:
        await until(lambda: len(broker.asked) == 2)
        broker.put(b"1")
    assert [most for _, most in broker.asked[1:]] == [8, 8][: len(broker.asked) - 1]


@on_a_loop
async def test_a_handler_that_does_not_return_is_left_when_the_drain_is_over() -> None:
    scene = Scene()
    scene.gate.clear()
    async with scene.begun() as broker:
        broker.put(b"1")
        await until(lambda: len(scene.calls) == 1)
        await scene.popping.stop(0.01)
    assert not broker.acked


@on_a_loop
async def test_a_thread_that_does_not_return_is_reported() -> None:
    may_end, begun = threading.Event(), threading.Event()

    def wait(messages: Sequence[StoredMessage]) -> None:
        begun.set()
        may_end.wait()

    scene = Scene(handler=wait)
    async with scene.begun() as broker:
        broker.put(b"1")
        await until(begun.is_set)
        await scene.popping.stop(0.01)
    assert scene.handling.stuck == [MessageQueue("orders", "broker-a", 0)]
    may_end.set()
    await until(lambda: not scene.handling.stuck)
    await scene.handling.close()
