"""What a member does with the queues that it is granted."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from contract.following import (
    Asked,
    Denial,
    GroupSource,
)
from evenkeel.members.doors import DeniedError
from follower import running
from follower.clock import clock
from follower.options import FollowerError
from follower.positions import MovedOnError, Step
from follower.work import Work
from mq_client.messages import StoredMessage
from mq_client.values import MessageQueue
from tests.unit.follower.scene import (
    FIRST,
    SECOND,
    Brokers,
    Scene,
    play,
    until,
)


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
            assert scene.brokers.reconnects == 1

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
