"""A member that pops queues in their order, with a broker in memory that fails as the test says."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from contract.following import GroupSource, PopTerms
from follower.clock import clock
from follower.metrics import Metrics
from follower.options import Begin, FollowerOptions
from follower.popping.ordered import OrderedBrokers
from follower.positions import MovedOnError
from follower.work import OverError, Work
from mq_client import aio, errors
from mq_client.messages import StoredMessage
from mq_client.popping import ORDERED, PopHandle, PoppedMessage, PopSource
from mq_client.pulling import LEAST_BYTES
from mq_client.values import MessageQueue
from tests.unit.follower.scene import until

QUEUE = MessageQueue("orders", "broker-a", 1)
BLANK = StoredMessage(*QUEUE, 0, b"", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)
AWAY = errors.NoBrokerError("the broker is away")
GONE = errors.HandleError("ACK_MESSAGE", "broker-a:1", 208, "no such offset")


class Broker:
    """One queue in memory, of which the next messages wait until the earlier ones are settled."""

    directory = None

    def __init__(self) -> None:
        self.end = 0
        self.committed: int | None = 0
        self.least = 0
        self.wanted_from = 0
        """The first message that is neither deleted nor left out by the filter."""
        self.lent: dict[int, PopHandle] = {}
        self.lent_to = ""
        """The id of the last pop."""
        self.body = b"body"
        self.unreadable: set[int] = set()
        self.pops: list[dict[str, Any]] = []
        """The arguments of all pops."""
        self.changed: list[tuple[int, int]] = []
        """The offsets whose time was changed, and the new time."""
        self.failures: dict[str, list[errors.MqError]] = {"pop": [], "ack": [], "change": []}
        """The errors that the next requests get."""
        self.news = asyncio.Event()

    def open(self, *_: object, **__: object) -> "Broker":
        return self

    async def close(self) -> None:
        pass

    async def run(self, guarded: Any) -> None:
        """Commit an offset."""
        flow = guarded.gi_frame.f_locals["flow"]
        self.committed = flow.gi_frame.f_locals["offsets"][QUEUE]

    async def find_committed(self, group: str, queue: MessageQueue) -> int | None:
        assert (group, queue) == ("billing", QUEUE)
        return self.committed

    async def find_min_offset(self, queue: MessageQueue) -> int:
        return self.least

    async def find_max_offset(self, queue: MessageQueue) -> int:
        return self.end

    def put(self, count: int) -> None:
        self.end += count
        self.news.set()

    async def pop(
        self, group: str, topic: str, broker: str, *, most: int, **more: Any
    ) -> list[PoppedMessage]:
        assert (group, topic, broker, more["queue_id"]) == ("billing", *QUEUE)
        assert more["is_ordered"]
        self.pops.append({"most": most, **more})
        first = max(self.committed or 0, self.wanted_from)
        while (self.lent and self.lent_to != more["attempt_id"]) or first >= self.end:
            self.news.clear()
            await self.news.wait()
            first = max(self.committed or 0, self.wanted_from)
        found = [
            PoppedMessage(
                BLANK._replace(queue_offset=offset, body=self.body),
                PopHandle(first, 0, 10_000, ORDERED, PopSource.TOPIC, "broker-a", 1, offset),
                0,
                "cut" if offset in self.unreadable else "",
            )
            for offset in range(first, min(self.end, first + most))
        ]
        self.lent = {each.handle.offset: each.handle for each in found}
        self.lent_to = more["attempt_id"]
        self._fail("pop")  # its answer is lost
        return found[::-1]

    async def acknowledge(self, group: str, topic: str, handles: Sequence[PopHandle]) -> None:
        self._fail("ack")
        for each in handles:
            del self.lent[each.offset]
            self.committed = each.offset + 1
        self.news.set()

    async def change_invisible(
        self, group: str, topic: str, handle: PopHandle, invisible_ms: int
    ) -> PopHandle:
        self._fail("change")
        self.changed.append((handle.offset, invisible_ms))
        if not invisible_ms:
            self.lent.pop(handle.offset, None)
            self.news.set()
        return handle

    def _fail(self, what: str) -> None:
        if self.failures[what]:
            raise self.failures[what].pop(0)


class Scene:
    """A member that holds the queue."""

    def __init__(
        self,
        broker: Broker,
        invisible_seconds: float = 60.0,
        options: FollowerOptions | None = None,
    ) -> None:
        self.broker = broker
        self.metrics = Metrics()
        terms = PopTerms(["orders"], invisible_seconds, 2, 5, 1.0)
        source = GroupSource("billing", ["mq:9876"], ordered=terms)
        self.brokers = OrderedBrokers(source, terms, options or FollowerOptions(), self.metrics)
        self.has_session = True

    async def hold(self) -> Work:
        work = Work(QUEUE, 1, "billing", lambda: self.has_session)
        await self.brokers.locate(work)
        return work


def offsets_of(work: Work) -> list[list[int]]:
    return [[each.queue_offset for each in piece.messages] for piece in work.pieces]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    found = Broker()
    monkeypatch.setattr(aio, "Client", found.open)
    return found


def test_the_next_messages_come_when_all_are_acknowledged(broker: Broker) -> None:
    async def story() -> None:
        scene = Scene(broker)
        work = await scene.hold()
        broker.put(5)
        assert await scene.brokers.pull(work, 1) == []
        assert offsets_of(work) == [[0, 1], [2, 3], [4]]
        assert [(piece.first, piece.stop) for piece in work.pieces] == [(0, 2), (2, 4), (4, 5)]
        assert work.retries is not None
        assert (work.retries.attempts, work.retries.first_pause) == (5, 1.0)
        broker.put(1)
        following = asyncio.create_task(scene.brokers.pull(work, 1))
        for offset in (2, 2, 4):
            await scene.brokers.commit(work, offset)
            assert broker.committed == offset
        assert len(broker.pops) == 1
        await scene.brokers.commit(work, 5)
        await following
        assert offsets_of(work) == [[5]]
        first, second = broker.pops
        assert first["attempt_id"] != second["attempt_id"]
        following = asyncio.create_task(scene.brokers.pull(work, 1))
        await asyncio.sleep(0.05)
        assert len(broker.pops) == 2
        work.end()
        await scene.brokers.close()

    asyncio.run(story())


def test_a_queue_without_a_committed_offset_begins_where_the_options_say(broker: Broker) -> None:
    async def story() -> None:
        broker.committed, broker.least, broker.end = None, 3, 9
        early = Scene(broker)
        late = Scene(broker, options=FollowerOptions(begin=Begin.LATEST))
        for scene, first in ((early, 3), (late, 9)):
            broker.committed = None
            assert await scene.brokers.locate(Work(QUEUE, 1, "billing", lambda: True)) == first
            assert broker.committed == first, "also if this member dies before it pops"

    asyncio.run(story())


def test_what_is_not_handled_is_given_back_when_the_queue_is_released(broker: Broker) -> None:
    async def story() -> None:
        scene = Scene(broker)
        work = await scene.hold()
        broker.put(3)
        await scene.brokers.pull(work, 1)
        await scene.brokers.commit(work, 1)
        work.end()
        await scene.brokers.close()
        assert broker.changed == [(1, 0), (2, 0)]
        assert not broker.lent

    asyncio.run(story())


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_pop_that_is_answered_after_the_release_gives_its_messages_back(
    broker: Broker, is_frozen: bool
) -> None:
    async def story() -> None:
        scene = Scene(broker)
        work = await scene.hold()
        pull = asyncio.create_task(scene.brokers.pull(work, 1))
        await until(lambda: bool(broker.pops))
        if is_frozen:
            scene.has_session = False  # the member has not noticed yet
        else:
            pull.cancel()
            work.end()
        broker.put(2)
        await until(lambda: broker.changed == [(0, 0), (1, 0)])
        assert not work.pieces
        with pytest.raises(OverError if is_frozen else asyncio.CancelledError):
            await pull
        await scene.brokers.close()

    asyncio.run(story())


def test_a_pop_whose_answer_is_lost_is_repeated_with_the_same_id(broker: Broker) -> None:
    async def story() -> None:
        scene = Scene(broker)
        work = await scene.hold()
        broker.put(1)
        broker.failures["pop"] = [AWAY]
        with pytest.raises(errors.NoBrokerError):
            await scene.brokers.pull(work, 1)
        await scene.brokers.pull(work, 1)
        first, second = broker.pops
        assert first["attempt_id"] == second["attempt_id"] != ""

    asyncio.run(story())


def test_messages_are_renewed_until_they_are_acknowledged(broker: Broker) -> None:
    async def story() -> None:
        scene = Scene(broker, invisible_seconds=2.0)
        work = await scene.hold()
        broker.put(2)
        broker.failures["change"] = [AWAY]
        await scene.brokers.pull(work, 1)
        flight = work.in_flight
        assert flight is not None
        first = flight.time.until
        await until(lambda: flight.time.until > first)
        assert {*broker.changed} == {(1, 2000)}, "the last one is enough"
        await scene.brokers.commit(work, 1)
        second = flight.time.until
        await until(lambda: flight.time.until > second)
        await scene.brokers.commit(work, 2)
        work.end()
        await scene.brokers.close()

    asyncio.run(story())


def test_the_handler_does_not_begin_with_messages_that_others_may_have(broker: Broker) -> None:
    async def story() -> None:
        scene = Scene(broker, invisible_seconds=0.2)
        work = await scene.hold()
        broker.put(1)
        broker.failures["change"] = [AWAY] * 1000
        await scene.brokers.pull(work, 1)
        flight = work.in_flight
        assert flight is not None
        await until(lambda: clock() > flight.time.until)
        with pytest.raises(MovedOnError, match="not renewed in time"):
            work.refuse_if_late()
        work.end()
        await scene.brokers.close()

    asyncio.run(story())


def test_messages_whose_time_is_over_are_not_renewed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker would say that it has renewed them, even if others have got them."""

    async def story() -> None:
        scene = Scene(broker, invisible_seconds=0.2)
        work = await scene.hold()
        broker.put(1)
        await scene.brokers.pull(work, 1)
        flight = work.in_flight
        assert flight is not None
        late = flight.time.until + 1.0  # the process was frozen
        monkeypatch.setattr("follower.popping.ordered.clock", lambda: late)
        await asyncio.sleep(0.3)
        assert not broker.changed
        monkeypatch.setattr("follower.work.clock", lambda: late)
        with pytest.raises(MovedOnError):
            work.refuse_if_late()

    asyncio.run(story())


def test_messages_are_given_back_after_a_renewal_that_is_under_way(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the broker might do it in the other order, and the next owner would wait."""

    async def story() -> None:
        scene = Scene(broker, invisible_seconds=0.2)
        work = await scene.hold()
        broker.put(2)
        may_renew, change = asyncio.Event(), broker.change_invisible

        async def wait_and_change(*args: Any) -> PopHandle:
            if args[-1]:
                await may_renew.wait()
            return await change(*args)

        monkeypatch.setattr(broker, "change_invisible", wait_and_change)
        await scene.brokers.pull(work, 1)
        await until(lambda: bool(scene.brokers._renewals))
        work.end()
        closing = asyncio.create_task(scene.brokers.close())
        await asyncio.sleep(0.05)
        assert not broker.changed
        may_renew.set()
        await closing
        assert broker.changed == [(1, 200), (0, 0), (1, 0)]

    asyncio.run(story())


def test_messages_that_the_broker_has_deleted_are_reported(broker: Broker) -> None:
    async def story() -> None:
        scene = Scene(broker)
        work = await scene.hold()
        broker.put(9)
        broker.least, broker.wanted_from = 3, 4
        assert await scene.brokers.pull(work, 1) == [(0, 3)], "the filter leaves out the next one"
        assert work.pieces[0].first == 0, "the commit covers them"
        assert offsets_of(work) == [[4, 5], [6, 7], [8]]

    asyncio.run(story())


def test_messages_that_the_broker_has_lost_hold_nothing_up(broker: Broker) -> None:
    async def story() -> None:
        scene = Scene(broker)
        work = await scene.hold()
        broker.put(1)
        await scene.brokers.pull(work, 1)
        broker.failures["ack"] = [AWAY, GONE]
        with pytest.raises(errors.NoBrokerError):
            await scene.brokers.commit(work, 1)
        assert work.in_flight is not None
        assert work.in_flight.handles, "it is tried again"
        await scene.brokers.commit(work, 1)
        assert not work.in_flight.handles

    asyncio.run(story())


def test_an_unreadable_message_is_a_piece_of_its_own(broker: Broker) -> None:
    async def story() -> None:
        scene = Scene(broker)
        work = await scene.hold()
        broker.put(3)
        broker.unreadable = {1}
        await scene.brokers.pull(work, 1)
        assert offsets_of(work) == [[0], [], [2]]
        bad = work.pieces[1].unreadable
        assert bad is not None
        assert (bad.first, bad.reason) == (1, "cut")

    asyncio.run(story())


def test_a_pop_takes_only_as_many_messages_as_fit_into_memory(broker: Broker) -> None:
    async def story() -> None:
        scene = Scene(broker, options=FollowerOptions(memory_bytes=1))
        broker.body = bytes(LEAST_BYTES // 3)
        work = await scene.hold()
        broker.put(9)
        await scene.brokers.pull(work, 1)
        await scene.brokers.commit(work, 9)
        broker.put(9)
        work.pieces.clear()
        await scene.brokers.pull(work, 1)
        assert offsets_of(work) == [[9, 10], [11]]

    asyncio.run(story())
