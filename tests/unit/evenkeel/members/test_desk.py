"""What a desk remembers about members that have gone."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from contract.following import Asked, Terms
from evenkeel.members.desk import GroupDesk
from mq_client.values import MessageQueue

SESSION = 10.0
QUEUE = MessageQueue("orders", "broker-a", 0)


class Desk(GroupDesk):
    """A settled desk, whose time the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(Terms(SESSION), SESSION, lambda: None, lambda: self.now)
        self.now = SESSION

    async def meet(self, member: str) -> None:
        """Let a member join and leave."""
        await self.ask(member, Asked(member, 1, 0, frozenset()), 0)
        self.leave(member, member)


def play(story: Callable[[Desk], Awaitable[None]]) -> None:
    async def run() -> None:
        desk = Desk()
        await story(desk)
        desk.close()

    asyncio.run(run())


def test_the_absence_of_an_owner_is_known_however_long_it_lasts() -> None:
    async def story(desk: Desk) -> None:
        desk.publish(1, {QUEUE: "owner"}, ["owner"])
        await desk.meet("owner")
        desk.now += 100 * SESSION
        desk.publish(2, {QUEUE: "owner"}, ["owner"])
        assert desk.measure_absence("owner") == pytest.approx(100 * SESSION)

    play(story)


def test_an_assignment_may_name_a_member_that_ended_meanwhile() -> None:
    async def story(desk: Desk) -> None:
        desk.publish(1, {}, [])
        await desk.meet("short")
        desk.now += SESSION
        desk.publish(2, {QUEUE: "short"}, ["short"])
        assert desk.measure_absence("short") == pytest.approx(SESSION)

    play(story)


def test_names_that_do_not_come_back_are_forgotten() -> None:
    """A forgotten member counts as absent since the leader began."""

    async def story(desk: Desk) -> None:
        for number in range(20):
            await desk.meet(f"pod-{number}")
            desk.now += SESSION
            desk.publish(number, {}, [])
        assert desk.measure_absence("pod-19") == SESSION
        assert desk.measure_absence("pod-0") == desk.now

    play(story)
