"""What a member does whose group is balanced by message, or was."""

import asyncio
from collections.abc import Callable

import pytest

from contract.following import (
    GroupSource,
    PopTerms,
)
from follower.handling import Handling
from follower.options import FollowerError, FollowerOptions
from follower.running import Running
from tests.unit.follower.scene import (
    FIRST,
    TERMS,
    Scene,
    until,
)


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


BY_MESSAGE = GroupSource("billing", ["mq:9876"], messages=PopTerms(["orders"], 60.0, 1, 16, 10.0))


IN_ORDER = GroupSource(
    "billing", ["mq:9876"], ordered=BY_MESSAGE.messages, leftovers=BY_MESSAGE.messages
)


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


def test_a_member_that_keeps_the_order_holds_queues_and_commits_after_each_call() -> None:
    async def story() -> None:
        scene = PoppingScene()
        scene.coordinator.source = IN_ORDER
        scene.coordinator.publish(FIRST)
        async with scene.begun() as task:
            await until(lambda: scene.brokers.commits[FIRST][-1:] == [5])
            assert scene.brokers.commits[FIRST] == [2, 4, 5]
            assert scene.opened == [IN_ORDER]
            assert len(scene.pops) == 1, "only leftovers"
            assert scene.coordinator.desk.poppers == frozenset()
            scene.pops[0].may_end.set()
            scene.running.stop()
            await task

    asyncio.run(story())


def test_messages_that_are_not_renewed_in_time_are_popped_again() -> None:
    async def story() -> None:
        scene = PoppingScene()
        scene.coordinator.source = IN_ORDER
        scene.coordinator.publish(FIRST)
        scene.brokers.late = 1
        async with scene.begun():
            await until(lambda: scene.brokers.commits[FIRST][-1:] == [5])
        assert scene.handled[FIRST] == [0, 1, 2, 3, 4]
        assert not scene.brokers.late

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
