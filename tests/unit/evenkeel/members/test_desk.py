"""A session ends at once when its process is known to have ended; the successor's session stays."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from contract.following import Asked, Denial, Grants, Refusal, Terms
from coordinator.sessions import HeldQueues
from evenkeel.members import desk
from evenkeel.members.desk import GroupDesk
from evenkeel.members.doors import DeniedError
from mq_client.values import MessageQueue

SOON = 0.05
QUEUE = MessageQueue("orders", "broker-a", 0)
BEFORE, AFTER = (datetime.now(UTC) + timedelta(days=days) for days in (-1, 1))


class Desk(GroupDesk):
    """A desk that waits for no sessions of an earlier leader. Member `a` owns the queue."""

    def __init__(self) -> None:
        super().__init__(Terms(600.0), 0.0, lambda: None)
        self.publish(1, {QUEUE: "a"}, ["a"])

    async def hear(
        self, member: str, number: int, session: str = "s", wait: float = 0.0,
        holds: Sequence[MessageQueue] = (), revision: int = 0, pops: bool = False,
    ) -> Grants[MessageQueue] | Refusal:  # fmt: skip
        asked = Asked(session, number, revision, frozenset(holds))
        return await self.ask(member, asked, wait, pops=pops)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "CONFIRM_SECONDS", SOON)


def play(story: Callable[[Desk], Awaitable[None]]) -> None:
    async def run() -> None:
        found = Desk()
        try:
            await story(found)
        finally:
            found.close(DeniedError(Denial.NOT_LEADING, "the test ends"))

    asyncio.run(run())


def test_a_pod_that_has_ended_ends_its_session_and_its_queues_are_free() -> None:
    async def story(it: Desk) -> None:
        assert await it.hear("a", 1) == Grants(1, 1, frozenset([QUEUE]))
        it.publish(2, {QUEUE: "b"}, ["b"])
        assert await it.hear("b", 1) == Grants(2, 0, frozenset())
        it.end("a")
        assert await it.hear("b", 2) == Grants(2, 1, frozenset([QUEUE]))
        assert await it.hear("a", 2) is Refusal.SESSION_OVER

    play(story)


def test_a_container_that_has_ended_ends_the_session_that_began_before() -> None:
    async def story(it: Desk) -> None:
        await it.hear("a", 1)
        it.suspect("a", AFTER)
        it.suspect("a", AFTER)
        assert list(it.live) == ["a"]
        await asyncio.sleep(2 * SOON)
        assert list(it.live) == []

    play(story)


def test_a_member_may_pop_until_a_request_after_the_change_says_that_it_does_not() -> None:
    async def story(it: Desk) -> None:
        heard: list[frozenset[str] | None] = []
        it.held_changed = lambda: heard.append(it.poppers)
        await it.hear("a", 1)
        assert it.poppers == frozenset()
        await it.hear("a", 2, pops=True, revision=1)
        waiting = asyncio.create_task(it.hear("a", 3, pops=True, revision=1, wait=600.0))
        await asyncio.sleep(0)  # the request arrives, and waits
        await it.hear("b", 1)
        assert it.poppers == {"a"}
        it.announce_pops()
        async with asyncio.timeout(15):  # without the change, it would wait for longer
            await waiting
        assert it.poppers == {"a", "b"}, "an earlier answer may have told b to pop"
        await it.hear("b", 2)
        await it.hear("a", 4, pops=True, revision=1)
        assert it.poppers == {"a"}
        del heard[:]
        it.leave("a", "s")
        assert it.poppers == frozenset()
        assert heard == [frozenset()], "the loop learns that nobody pops any more"

    play(story)


def test_nobody_knows_who_pops_before_all_live_members_are_known() -> None:
    async def story() -> None:
        it = GroupDesk(Terms(600.0), 600.0, lambda: None)
        assert it.poppers is None
        it.close(DeniedError(Denial.NOT_LEADING, "the test ends"))

    asyncio.run(story())


def test_a_session_that_began_after_the_end_stays() -> None:
    async def story(it: Desk) -> None:
        await it.hear("a", 1)
        it.suspect("a", BEFORE)
        await asyncio.sleep(2 * SOON)
        assert list(it.live) == ["a"]

    play(story)


def test_a_member_that_waits_for_an_answer_lives_whatever_the_clocks_say() -> None:
    async def story(it: Desk) -> None:
        await it.hear("a", 1)
        waiting = asyncio.create_task(it.hear("a", 2, wait=60, revision=1, holds=[QUEUE]))
        await asyncio.sleep(0)
        it.suspect("a", AFTER)
        await asyncio.sleep(2 * SOON)
        assert list(it.live) == ["a"]
        waiting.cancel()

    play(story)


def test_a_member_that_asks_lives_whatever_the_clocks_say() -> None:
    async def story(it: Desk) -> None:
        await it.hear("a", 1)
        it.suspect("a", AFTER)
        await asyncio.sleep(SOON / 2)
        await it.hear("a", 2, revision=1, holds=[QUEUE])
        await asyncio.sleep(2 * SOON)
        assert list(it.live) == ["a"]

    play(story)


def test_a_process_that_ends_while_it_waits_ends_its_session() -> None:
    """The kubelet's report sometimes arrives before the connection is closed."""

    async def story(it: Desk) -> None:
        await it.hear("a", 1)
        waiting = asyncio.create_task(it.hear("a", 2, wait=60, revision=1, holds=[QUEUE]))
        await asyncio.sleep(0)
        it.suspect("a", AFTER)
        await asyncio.sleep(SOON / 2)
        waiting.cancel()
        await asyncio.sleep(3 * SOON)
        assert list(it.live) == []

    play(story)


def test_a_member_that_has_been_quiet_for_long_is_not_waited_for_again() -> None:
    async def story(it: Desk) -> None:
        await it.hear("a", 1)
        await asyncio.sleep(2 * SOON)
        it.suspect("a", AFTER)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert list(it.live) == []

    play(story)


def test_a_member_that_just_got_an_answer_is_given_time_to_ask_again() -> None:
    async def story(it: Desk) -> None:
        await it.hear("a", 1)
        waiting = asyncio.create_task(it.hear("a", 2, wait=60, revision=1, holds=[QUEUE]))
        await asyncio.sleep(2 * SOON)
        it.publish(2, {QUEUE: "b"}, ["b"])
        await waiting
        it.suspect("a", AFTER)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert list(it.live) == ["a"]

    play(story)


def test_a_successor_is_not_taken_for_the_suspect() -> None:
    async def story(it: Desk) -> None:
        await it.hear("a", 1)
        it.suspect("a", AFTER)
        it.leave("a", "s")
        await it.hear("a", 1, session="next")
        await asyncio.sleep(2 * SOON)
        assert list(it.live) == ["a"]

    play(story)


def test_a_queue_that_its_borrower_gets_for_good_is_lent_no_more() -> None:
    """This changes no grant, so no member gets a new answer."""

    async def story(it: Desk) -> None:
        it.lend(["b"])
        await it.hear("b", 1)
        assert it.held == HeldQueues(sessions=1, granted_queues=1, lent_queues=1)
        it.publish(2, {QUEUE: "b"}, ["b"])
        assert it.held == HeldQueues(sessions=1, granted_queues=1)

    play(story)


def test_a_queue_is_waiting_as_soon_as_it_gets_an_owner_that_is_away() -> None:
    async def story(it: Desk) -> None:
        other = MessageQueue("orders", "broker-a", 1)
        it.publish(2, {QUEUE: "a", other: "a"}, [])
        assert it.held == HeldQueues(waiting_queues=2)

    play(story)


def test_a_client_counts_as_a_member_for_as_long_as_brokers_may_list_it() -> None:
    async def story() -> None:
        now = 0.0
        found = GroupDesk(Terms(10.0), 0.0, lambda: None, lambda: now)
        await found.ask("a", Asked("s", 1, 0, frozenset()), 0.0, "10.0.0.9@4711")
        await found.ask("b", Asked("t", 1, 0, frozenset()), 0.0)
        found.end("a")
        now = desk.LISTED_SECONDS - 1
        assert found.list_client_ids() == {"10.0.0.9@4711"}
        now = desk.LISTED_SECONDS + 1
        assert found.list_client_ids() == frozenset()
        found.close(DeniedError(Denial.NOT_LEADING, "the test ends"))

    asyncio.run(story())


def test_a_poll_that_follows_news_ends_early_so_that_not_all_end_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With these terms, a poll that is not ended early lasts three minutes."""
    monkeypatch.setattr(random, "uniform", lambda least, most: 0.0)

    async def story(it: Desk) -> None:
        news = await it.hear("a", 1)
        assert news == Grants(1, 1, frozenset([QUEUE]))
        async with asyncio.timeout(10):
            assert await it.hear("a", 2, wait=600.0, holds=[QUEUE], revision=1) == news
        whole = asyncio.create_task(it.hear("a", 3, wait=600.0, holds=[QUEUE], revision=1))
        await asyncio.sleep(SOON)
        assert not whole.done()
        it.publish(2, {QUEUE: "b"}, ["b"])
        assert await whole == Grants(2, 2, frozenset())
        async with asyncio.timeout(10):
            again = await it.hear("a", 4, wait=600.0, holds=[QUEUE], revision=2)
        assert again == Grants(2, 2, frozenset())

    play(story)
