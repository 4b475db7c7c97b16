"""A member on its event loop, with the real desk of a coordinator and queues in memory."""

import asyncio
import collections
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import pytest

from contract.following import (
    Asked,
    Denial,
    GroupSource,
    MemberAnswer,
    MemberRefusal,
    PopTerms,
    Refusal,
    Terms,
)
from contract.kinds.groups import OnOutage
from evenkeel.members.desk import GroupDesk
from evenkeel.members.doors import DeniedError
from follower import running
from follower.asks import NoAnswerError, RefusedError
from follower.clock import clock
from follower.handling import Handler, Handling
from follower.metrics import Metrics
from follower.options import FollowerError, FollowerOptions
from follower.pieces import DeadLetter, cut
from follower.positions import MovedOnError, Step
from follower.queues import write_queues
from follower.running import Running
from follower.work import Work
from mq_client import errors
from mq_client.messages import StoredMessage
from mq_client.values import MessageQueue

TERMS = Terms(session=1.0, drain=0.5)
FIRST, SECOND = (MessageQueue("orders", "broker-a", each) for each in range(2))
BLANK = StoredMessage("orders", "broker-a", 0, 0, b"", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)


class Coordinator:
    """A real desk, which may be unreachable or refuse requests."""

    url, group, member = "http://coordinator", "shop/billing", "a"

    def __init__(self) -> None:
        self.source = GroupSource("billing", ["mq:9876"])
        self.desk = GroupDesk(TERMS, 0.0, lambda: None)
        self.is_away = False
        self.reason: str | None = None
        self.left: list[str] = []
        self.epoch = 0
        self.requests = 0

    def publish(self, *queues: MessageQueue) -> None:
        self.epoch += 1
        self.desk.publish(self.epoch, dict.fromkeys(queues, "a"), ["a"])

    async def ask(
        self, asked: Asked[MessageQueue], wait_seconds: float, seconds: float, *, pops: bool = False
    ) -> MemberAnswer:
        self.requests += 1
        if self.is_away:
            raise NoAnswerError("http://coordinator cannot be reached")
        if self.reason is not None:
            raise RefusedError(400, MemberRefusal(self.reason, "no"))
        answer = await self.desk.ask("a", asked, wait_seconds, pops=pops)
        if isinstance(answer, Refusal):
            raise RefusedError(409, MemberRefusal(answer.value, "no"))
        return MemberAnswer(
            answer.epoch, answer.revision, write_queues(answer.queues), TERMS.session,
            TERMS.drain, OnOutage.STOP, self.source,
        )  # fmt: skip

    async def leave(self, session: str) -> None:
        self.left.append(session)
        self.desk.leave("a", session)


class Brokers:
    """Queues in memory."""

    def __init__(self) -> None:
        self.ends: dict[MessageQueue, int] = {FIRST: 5, SECOND: 5}
        self.commits: dict[MessageQueue, list[int]] = collections.defaultdict(list)
        self.away: set[MessageQueue] = set()
        self.gaps: list[tuple[int, int]] = []
        self.is_closed = False
        self._next: dict[Work, int] = {}

    async def locate(self, work: Work) -> int:
        self._refuse_if_away(work)
        found = self.commits[work.queue]
        stored = work.stored
        self._next[work] = stored if stored is not None else found[-1] if found else 0
        return self._next[work]

    async def pull(self, work: Work, queues: int) -> list[tuple[int, int]]:
        first = self._next[work]
        while True:
            self._refuse_if_away(work)
            stop = self.ends[work.queue]
            if stop > first:
                break
            await asyncio.sleep(0.005)
        topic, broker, number = work.queue
        messages = [
            BLANK._replace(topic=topic, broker=broker, queue_id=number, queue_offset=each)
            for each in range(first, stop)
        ]
        work.pieces = cut(first, stop, messages, (), 2)
        self._next[work] = stop
        gaps, self.gaps = self.gaps, []
        return gaps

    async def commit(self, work: Work, offset: int) -> None:
        work.check()
        self._refuse_if_away(work)
        self.commits[work.queue].append(offset)

    async def bury(self, work: Work, letter: DeadLetter) -> None:
        raise AssertionError(f"no message of these stories is given up: {letter}")

    async def close(self) -> None:
        self.is_closed = True

    def _refuse_if_away(self, work: Work) -> None:
        if work.queue in self.away:
            raise errors.NoBrokerError("the broker is away")


class Ledger:
    """Keeps positions in memory, together with the handled messages."""

    def __init__(self) -> None:
        self.position = 2
        self.handled: list[int] = []
        self.refused = 0

    async def read_position(self, group: str, queue: MessageQueue) -> int:
        assert group == "billing"
        return self.position

    async def __call__(self, messages: Sequence[StoredMessage], step: Step) -> None:
        if step.begin != self.position:
            self.refused += 1
            raise MovedOnError("somebody else has moved it")
        self.handled += [each.queue_offset for each in messages]
        self.position = step.end


class Scene:
    """A member with its coordinator, brokers and handler."""

    def __init__(self, handler: Handler | None = None) -> None:
        self.coordinator = Coordinator()
        self.brokers = Brokers()
        self.opened: list[GroupSource] = []
        self.handled: dict[MessageQueue, list[int]] = collections.defaultdict(list)
        self.bad: set[tuple[MessageQueue, int]] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.metrics = Metrics()
        self.running = Running(
            self.coordinator, self._open,
            Handling(handler or self.handle, FollowerOptions(attempts=1), self.metrics),
            self.metrics,
        )  # fmt: skip

    def _open(self, source: GroupSource) -> Brokers:
        self.opened.append(source)
        return self.brokers

    async def handle(self, messages: Sequence[StoredMessage]) -> None:
        await self.gate.wait()
        for each in messages:
            queue = MessageQueue(each.topic, each.broker, each.queue_id)
            if (queue, each.queue_offset) in self.bad:
                raise ValueError("bad order")
            self.handled[queue].append(each.queue_offset)

    @contextlib.asynccontextmanager
    async def begun(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(self.running.run())
        try:
            yield task
        finally:
            self.running.stop()
            await asyncio.wait([task], timeout=2)
            self.coordinator.desk.close(DeniedError(Denial.NOT_LEADING, "it ends"))

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"evenkeel_follower_{name}", labels)


class Pops:
    """Stands for the pops of a member; it ends when the test says."""

    def __init__(self) -> None:
        self.drained: list[float] = []
        self.may_end = asyncio.Event()
        self.is_closed = False

    async def stop(self, drain_seconds: float) -> None:
        self.drained.append(drain_seconds)
        await self.may_end.wait()

    async def close(self) -> None:
        self.is_closed = True


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_so():  # noqa: ASYNC110  # no event reports it
            await asyncio.sleep(0.005)


def play(story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await story(Scene())

    asyncio.run(run())


def test_granted_queues_are_handled_in_order_and_committed() -> None:
    async def story(scene: Scene) -> None:
        scene.coordinator.publish(FIRST, SECOND)
        async with scene.begun():
            await until(lambda: scene.brokers.commits[FIRST][-1:] == [5])
            await until(lambda: scene.brokers.commits[SECOND][-1:] == [5])
            scene.brokers.ends[FIRST] = 8
            await until(lambda: scene.brokers.commits[FIRST][-1:] == [8])
        assert scene.handled == {FIRST: [*range(8)], SECOND: [*range(5)]}

    play(story)


def test_a_member_that_stops_leaves_at_once_and_has_committed_everything() -> None:
    async def story(scene: Scene) -> None:
        scene.coordinator.publish(FIRST)
        async with scene.begun() as task:
            await until(lambda: len(scene.handled[FIRST]) == 5)
            scene.running.stop()
            async with asyncio.timeout(1):
                await task
        assert scene.brokers.commits[FIRST][-1] == 5
        assert len(scene.coordinator.left) == 1
        assert scene.brokers.is_closed

    play(story)


def test_what_the_handler_has_begun_is_finished_before_a_queue_is_released() -> None:
    async def story(scene: Scene) -> None:
        scene.coordinator.publish(FIRST)
        scene.gate.clear()
        async with scene.begun():
            await until(lambda: scene.value("held_queues") == 1)
            await asyncio.sleep(0.05)
            scene.coordinator.publish(SECOND)
            await until(lambda: scene.value("held_queues") == 2)
            scene.gate.set()
            await until(lambda: scene.value("held_queues") == 1)
            assert scene.handled[FIRST] == [0, 1]
            assert scene.brokers.commits[FIRST] == [2]

    play(story)


def test_a_queue_that_stands_still_stops_no_other_and_is_released_at_once() -> None:
    async def story(scene: Scene) -> None:
        scene.coordinator.publish(FIRST, SECOND)
        scene.bad = {(FIRST, 3)}
        async with scene.begun():
            await until(lambda: len(scene.handled[SECOND]) == 5)
            await until(lambda: scene.value("stopped_queues") == 1)
            await until(lambda: scene.brokers.commits[FIRST][-1:] == [3])
            scene.coordinator.publish(SECOND)
            await until(lambda: scene.value("held_queues") == 1)
            assert scene.value("stopped_queues") == 0

    play(story)


def test_a_broker_that_is_away_stops_no_other_queue() -> None:
    async def story(scene: Scene) -> None:
        scene.coordinator.publish(FIRST, SECOND)
        scene.brokers.away = {FIRST}
        async with scene.begun():
            await until(lambda: len(scene.handled[SECOND]) == 5)
            assert scene.handled[FIRST] == []
            scene.brokers.away.clear()
            await until(lambda: len(scene.handled[FIRST]) == 5)

    play(story)


def test_messages_that_were_deleted_are_said_to_be_lost(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> None:
        scene.brokers.gaps = [(3, 7)]
        scene.coordinator.publish(FIRST)
        async with scene.begun():
            await until(lambda: scene.value("lost_messages_total") == 4)

    play(story)
    assert "offsets 3 to 6 are deleted on the broker" in caplog.text


def test_a_member_whose_coordinator_is_away_gives_up_its_queues_and_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def story(scene: Scene) -> None:
        scene.coordinator.publish(FIRST)
        async with scene.begun():
            await until(lambda: scene.value("held_queues") == 1)
            assert scene.running.trouble == ""
            scene.coordinator.is_away = True
            scene.coordinator.publish(FIRST, SECOND)  # this ends the poll
            await until(lambda: scene.value("held_queues") == 0)
            assert "cannot be reached" in scene.running.trouble
            scene.coordinator.is_away = False
            await until(lambda: scene.value("held_queues") == 2)
            assert scene.value("sessions_total") == 2

    play(story)
    assert caplog.text.count("cannot be reached; trying again") == 1
    assert "the session is over" in caplog.text
    assert "http://coordinator answers again" in caplog.text


def test_a_process_that_was_frozen_does_nothing_before_it_has_looked_at_its_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(scene: Scene) -> None:
        scene.coordinator.publish(FIRST)
        scene.gate.clear()
        async with scene.begun():
            await until(lambda: scene.value("held_queues") == 1)
            await asyncio.sleep(0.02)
            ahead = clock() + 30.0
            monkeypatch.setattr(running, "clock", lambda: ahead)
            scene.gate.set()
            await asyncio.sleep(0.1)
            assert scene.brokers.commits[FIRST] == []
            assert scene.value("handled_messages_total") == 0

    play(story)


def test_another_process_with_the_name_is_waited_for_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(scene: Scene) -> None:
        scene.coordinator.publish(FIRST)
        desk = scene.coordinator.desk
        await desk.ask("a", Asked("other", 1, 0, frozenset()), 0.0)
        async with scene.begun():
            await until(lambda: scene.value("refusals_total", reason="AnotherSession") == 1)
            desk.leave("a", "other")
            await until(lambda: scene.value("held_queues") == 1)

    play(story)
    assert "another process is member 'a' of group shop/billing and is alive" in caplog.text


def test_a_queue_is_read_from_the_stored_position_also_after_somebody_else_has_moved_it() -> None:
    ledger = Ledger()

    async def story() -> None:
        scene = Scene(ledger)
        scene.coordinator.publish(FIRST)
        async with scene.begun():
            await until(lambda: scene.brokers.commits[FIRST][-1:] == [5])
            assert ledger.handled == [2, 3, 4]
            ledger.position = 7
            scene.brokers.ends[FIRST] = 9
            await until(lambda: scene.brokers.commits[FIRST][-1:] == [9])
        assert ledger.handled == [2, 3, 4, 7, 8]
        assert ledger.refused == 1
        assert scene.value("sessions_total") == 1

    asyncio.run(story())


class Moving(Brokers):
    """Brokers that report one time that a position has moved, as a store of positions can do."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.at = at

    def move_once(self, what: str) -> None:
        if self.at == what:
            self.at = ""
            raise MovedOnError("somebody else has moved it")

    async def locate(self, work: Work) -> int:
        self.move_once("locate")
        return await super().locate(work)

    async def commit(self, work: Work, offset: int) -> None:
        self.move_once("commit")
        await super().commit(work, offset)


@pytest.mark.parametrize(("at", "twice"), [("locate", []), ("commit", [0, 1, 2, 3, 4])])
def test_a_queue_begins_anew_if_its_position_has_moved(at: str, twice: list[int]) -> None:
    async def story() -> None:
        scene = Scene()
        scene.brokers = Moving(at)
        scene.coordinator.publish(FIRST)
        async with scene.begun():
            await until(lambda: scene.brokers.commits[FIRST][-1:] == [5])
            assert scene.handled[FIRST] == [*twice, 0, 1, 2, 3, 4]
        assert scene.value("sessions_total") == 1

    asyncio.run(story())


@pytest.mark.parametrize("what", ["locate", "pull"])
def test_a_broker_that_is_away_is_counted_and_named_until_it_works_again(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def story(scene: Scene) -> None:
        scene.coordinator.publish(FIRST)
        if what == "locate":
            scene.brokers.away.add(FIRST)
        async with scene.begun():
            if what == "pull":
                await until(lambda: scene.brokers.commits[FIRST][-1:] == [5])
                scene.brokers.away.add(FIRST)
            await until(lambda: scene.value("broker_failures_total", what=what) is not None)
            scene.brokers.ends[FIRST] = 9
            scene.brokers.away.clear()
            await until(lambda: scene.brokers.commits[FIRST][-1:] == [9])

    play(story)
    assert f"{what} failed, trying again: the broker is away" in caplog.text
    assert f"{what} works again" in caplog.text


def test_a_broker_that_is_away_holds_up_no_release_of_what_is_stored_already() -> None:
    async def story(scene: Scene) -> None:
        scene.coordinator.publish(FIRST, SECOND)
        async with scene.begun():
            await until(lambda: scene.brokers.commits[FIRST][-1:] == [5])
            scene.brokers.away.add(FIRST)
            scene.coordinator.publish(SECOND)
            await until(lambda: scene.value("held_queues") == 1)
            assert scene.value("broker_failures_total", what="commit") == 1
            assert scene.brokers.commits[FIRST][-1] == 5

    play(story)


def test_a_token_that_is_refused_at_the_start_ends_the_member() -> None:
    async def story(scene: Scene) -> None:
        scene.coordinator.reason = "Forbidden"
        with pytest.raises(FollowerError, match="refuses the token"):
            await scene.running.run()
        scene.coordinator.desk.close(DeniedError(Denial.NOT_LEADING, "it ends"))

    play(story)


def test_a_group_that_does_not_exist_yet_is_asked_for_again() -> None:
    async def story(scene: Scene) -> None:
        scene.coordinator.reason = "NoSuchGroup"
        scene.coordinator.publish(FIRST)
        async with scene.begun():
            await until(lambda: (scene.value("refusals_total", reason="NoSuchGroup") or 0) >= 1)
            scene.coordinator.reason = None
            await until(lambda: scene.value("held_queues") == 1)

    play(story)


def test_another_source_ends_the_run_after_what_was_begun() -> None:
    async def story(scene: Scene) -> None:
        scene.coordinator.publish(FIRST)
        async with scene.begun() as task:
            await until(lambda: len(scene.handled[FIRST]) == 5)
            scene.coordinator.source = GroupSource("billing", ["mq:9876"], {"orders": "paid"})
            async with asyncio.timeout(2):
                await task
        assert scene.brokers.commits[FIRST][-1] == 5

    play(story)


BY_MESSAGE = GroupSource("billing", ["mq:9876"], messages=PopTerms(["orders"], 60.0, 1, 16, 10.0))


class PoppingScene(Scene):
    """A member whose group is balanced by message."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator.source = BY_MESSAGE
        self.coordinator.publish()
        self.pops: list[Pops] = []
        self.running = Running(
            self.coordinator, self._open, Handling(self.handle, FollowerOptions(), self.metrics),
            self.metrics, start_pops=self._start,
        )  # fmt: skip

    def _start(self, source: GroupSource, terms: PopTerms) -> Pops:
        assert terms in (source.messages, source.leftovers)
        self.pops.append(Pops())
        return self.pops[-1]


def test_a_member_by_message_pops_without_a_session_and_ends_it_after_its_pops() -> None:
    async def story() -> None:
        scene = PoppingScene()
        async with scene.begun() as task:
            await until(lambda: bool(scene.pops))
            scene.coordinator.is_away = True
            session = scene.running.session
            await until(lambda: scene.running.session != session)  # it is over
            assert scene.running.trouble == ""
            assert not scene.pops[0].drained
            scene.coordinator.is_away = False
            await until(lambda: scene.value("sessions_total") == 2)
            scene.running.stop()
            await until(lambda: scene.pops[0].drained == [TERMS.drain])
            before = scene.coordinator.requests
            await until(lambda: scene.coordinator.requests > before + 1)
            assert not scene.coordinator.left
            scene.pops[0].may_end.set()
            await task
        assert len(scene.coordinator.left) == 1
        assert not scene.opened

    asyncio.run(story())


def test_a_member_says_that_it_pops_until_its_last_pop_has_ended() -> None:
    async def story() -> None:
        scene = PoppingScene()
        async with scene.begun() as task:
            await until(lambda: scene.coordinator.desk.poppers == frozenset("a"))
            scene.coordinator.source = GroupSource("billing", ["mq:9876"])
            scene.coordinator.desk.announce_pops()
            await until(lambda: bool(scene.pops[0].drained))
            before = scene.coordinator.requests
            await until(lambda: scene.coordinator.requests > before + 1)
            assert scene.coordinator.desk.poppers == frozenset("a")
            scene.pops[0].may_end.set()
            await task
        assert scene.coordinator.desk.poppers == frozenset()

    asyncio.run(story())


def test_a_member_pops_leftovers_beside_its_queues_and_stops_both() -> None:
    async def story() -> None:
        scene = PoppingScene()
        left = GroupSource("billing", ["mq:9876"], leftovers=BY_MESSAGE.messages)
        scene.coordinator.source = left
        scene.coordinator.publish(FIRST)
        async with scene.begun() as task:
            await until(lambda: len(scene.handled[FIRST]) == 5)
            assert len(scene.pops) == 1
            assert scene.coordinator.desk.poppers == frozenset()
            scene.running.stop()
            await until(lambda: bool(scene.coordinator.left))  # others may read its queues
            assert scene.value("held_queues") == 0
            assert scene.pops[0].drained == [TERMS.drain]
            assert not task.done(), "its call still has a leftover"
            scene.pops[0].may_end.set()
            await task
        assert scene.brokers.commits[FIRST][-1] == 5

    asyncio.run(story())


def test_a_member_whose_handler_cannot_get_leftovers_reads_its_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        scene = PoppingScene()
        monkeypatch.setattr(scene.running, "_start_pops", lambda source, terms: None)
        scene.coordinator.source = GroupSource("b", ["mq:9876"], leftovers=BY_MESSAGE.messages)
        scene.coordinator.publish(FIRST)
        async with scene.begun():
            await until(lambda: len(scene.handled[FIRST]) == 5)

    asyncio.run(story())


def test_a_member_by_message_stops_when_its_group_is_gone_or_changes() -> None:
    async def story(change: Callable[[PoppingScene], None]) -> None:
        scene = PoppingScene()
        async with scene.begun() as task:
            await until(lambda: bool(scene.pops))
            change(scene)
            await until(lambda: bool(scene.pops[0].drained))
            before = scene.coordinator.requests
            await until(lambda: scene.coordinator.requests > before + 1)
            assert not scene.pops[0].is_closed  # its calls have as long as they may take
            scene.pops[0].may_end.set()
            await task
        assert scene.pops[0].drained == [TERMS.drain]

    def lose(scene: PoppingScene) -> None:
        scene.coordinator.reason = "NoSuchGroup"

    def alter(scene: PoppingScene) -> None:
        scene.coordinator.source = GroupSource("billing", ["mq:9876"])

    for change in (lose, alter):
        asyncio.run(story(change))


def test_a_member_by_message_that_is_refused_for_now_pops_on() -> None:
    async def story() -> None:
        scene = PoppingScene()
        async with scene.begun():
            await until(lambda: bool(scene.pops))
            scene.coordinator.reason = "PodUnseen"
            await until(lambda: bool(scene.value("refusals_total", reason="PodUnseen")))
            assert not scene.pops[0].drained
            scene.pops[0].may_end.set()

    asyncio.run(story())


def test_a_second_stop_ends_the_pops_at_once() -> None:
    async def story() -> None:
        scene = PoppingScene()
        async with scene.begun() as task:
            await until(lambda: bool(scene.pops))
            scene.running.stop()
            scene.running.stop()
            await task
        assert scene.pops[0].is_closed

    asyncio.run(story())


def test_a_program_that_reads_by_queue_refuses_a_group_by_message() -> None:
    async def story() -> None:
        scene = Scene()
        scene.coordinator.source = BY_MESSAGE
        scene.coordinator.publish()
        async with scene.begun() as task:
            with pytest.raises(FollowerError, match="is balanced by message"):
                await task

    asyncio.run(story())
