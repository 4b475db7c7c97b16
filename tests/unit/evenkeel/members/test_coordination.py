"""Which queues are granted to members that join and leave, by the slots that they fill."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from contract.following import MemberAnswer, MemberRequest, PopTerms
from contract.kinds.groups import Assigned, Balance, GroupSpec, GroupStatus, OwnedQueues
from contract.kinds.topics import TopicSpec, TopicStatus
from evenkeel.members.coordination import Coordination
from evenkeel.objects import ConsumerGroup, Head, Key, Topic

KEY = Key("shop", "billing")
ORDERS = Topic(
    Head(Key("shop", "orders")),
    TopicSpec(name_servers=["mq:9876"], topic="orders%v2"),
    TopicStatus(),
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Members:
    """A coordination of a group, and the newest answer to each member."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.coordination = Coordination(lambda key: None, self.clock)
        self.answers: dict[str, MemberAnswer] = {}
        self.numbers: dict[str, int] = {}

    def follow(
        self,
        *assigned: Assigned,
        drain: str = "",
        promised: str = "",
        now: Balance = Balance.QUEUES,
        leftovers: bool = False,
        ordered: bool = False,
        **more: object,
    ) -> None:
        spec: dict[str, Any] = {"topics": [{"name": "orders"}], "consumers": {"members": {}}}
        spec |= more
        head = Head(KEY, annotations={"evenkeel.dev/drain": drain})
        status = GroupStatus(
            epoch=1,
            assignments=list(assigned),
            session=promised,
            balance=now,
            leftovers=leftovers,
            ordered=ordered,
        )
        group = ConsumerGroup(head, msgspec.convert(spec, GroupSpec), status)
        self.coordination.follow(group, {ORDERS.head.key: ORDERS})

    async def begin(self) -> None:
        """Let `a` and `b` join; `a` first borrows the queues of `b`, and gives them back."""
        for member in "abaab":
            await self.ask(member)

    async def ask(self, member: str) -> list[str]:
        """Ask while holding what the last answer granted; return the ids that are granted now."""
        last = self.answers.get(member)
        number = self.numbers[member] = self.numbers.get(member, 0) + 1
        request = MemberRequest(
            f"of {member}", number, last.revision if last else 0, last.grants if last else [], 0.0
        )
        answer = await self.coordination.ask(KEY, member, request)
        assert isinstance(answer, MemberAnswer), answer
        self.answers[member] = answer
        return [each.ids for each in answer.grants]


def slot(
    number: int, pod: str, ids: str, empty_since: str = "", draining: bool = False
) -> Assigned:
    queues = [OwnedQueues("orders", "broker-a", ids)] if ids else []
    return Assigned(
        f"billing-{number}", pod=pod, empty_since=empty_since, draining=draining, queues=queues
    )


def play(story: Callable[[Members], Awaitable[None]]) -> None:
    async def run() -> None:
        members = Members()
        members.follow(slot(0, "a", "0-1"), slot(1, "b", "2-3"))
        members.clock.now = 60.0
        await story(members)
        members.coordination.close()

    asyncio.run(run())


def test_a_pod_is_granted_the_queues_of_the_slot_that_it_fills() -> None:
    async def story(members: Members) -> None:
        await members.begin()
        assert (await members.ask("a"), await members.ask("b")) == (["0-1"], ["2-3"])

    play(story)


def test_a_pod_that_waits_for_a_slot_borrows_its_queues_before_it_gets_it() -> None:
    """Borrowing lets the queues go directly from the old pod to its successor."""

    async def story(members: Members) -> None:
        await members.begin()
        assert await members.ask("next") == []
        members.coordination.leave(KEY, "a", "of a")
        assert (await members.ask("next"), await members.ask("b")) == (["0-1"], ["2-3"])
        members.follow(slot(0, "next", "0-1"), slot(1, "b", "2-3"))
        assert (await members.ask("next"), await members.ask("b")) == (["0-1"], ["2-3"])
        assert members.answers["next"].revision == 1

    play(story)


def test_the_queues_of_an_empty_slot_are_lent_until_it_is_filled() -> None:
    async def story(members: Members) -> None:
        await members.begin()
        members.coordination.end(KEY, "a")
        members.follow(slot(0, "a", "0-1", empty_since="2026-01-01"), slot(1, "b", "2-3"))
        assert await members.ask("b") == ["0-3"]
        assert await members.ask("next") == []
        members.follow(slot(0, "next", "0-1"), slot(1, "b", "2-3"))
        assert await members.ask("b") == ["2-3"]
        assert await members.ask("next") == []
        await members.ask("b")
        assert await members.ask("next") == ["0-1"]

    play(story)


def test_a_pod_that_is_drained_borrows_nothing() -> None:
    async def story(members: Members) -> None:
        members.follow(slot(0, "a", "0-3"), slot(1, "b", "", draining=True), drain="b,c")
        for name in ("a", "b", "c"):
            await members.ask(name)
        members.coordination.end(KEY, "a")
        assert (await members.ask("b"), await members.ask("c")) == ([], [])
        assert await members.ask("d") == ["0-3"]

    play(story)


def test_a_new_leader_waits_for_the_longest_session_that_was_promised() -> None:
    """The spec now says 10 s, but the status still says 50 s."""

    async def run() -> None:
        members = Members()
        members.follow(slot(0, "a", "0-3"), promised="50s")
        members.clock.now = 49.0
        assert await members.ask("a") == []
        assert members.coordination.list_live(KEY) is None
        members.clock.now = 50.0
        assert await members.ask("a") == ["0-3"]
        assert list(members.coordination.list_live(KEY) or ()) == ["a"]
        members.coordination.close()

    asyncio.run(run())


def test_members_of_a_group_by_message_learn_how_to_pop_and_get_no_queues() -> None:
    async def story() -> None:
        members = Members()
        settings = {"invisibleTime": "2m", "batch": 4, "maxAttempts": 3, "backoff": "500ms"}
        by_message: dict[str, Any] = {"balance": "Messages", "now": Balance.MESSAGES}
        members.follow(Assigned("a"), Assigned("b"), **by_message, messages=settings)
        members.clock.now = 10.0
        assert await members.ask("a") == []
        source = members.answers["a"].source
        assert source.messages == PopTerms(["orders%v2"], 120.0, 4, 3, 0.5)
        members.follow(**by_message, messages={"invisibleTime": "1ms"})
        await members.ask("a")
        assert members.answers["a"].source.messages == PopTerms(["orders%v2"], 10.0, 1, 16, 10.0)
        members.follow()
        await members.ask("a")
        assert members.answers["a"].source.messages is None

    asyncio.run(story())


def test_members_pop_only_what_comes_again_unless_both_balances_are_by_message() -> None:
    async def story() -> None:
        members = Members()
        terms = PopTerms(["orders%v2"], 60.0, 1, 16, 10.0)
        members.follow()
        members.clock.now = 10.0
        for balance, now, leftovers, expected in (
            ("Queues", Balance.QUEUES, False, (None, None)),
            ("Messages", Balance.QUEUES, False, (None, None)),
            ("Messages", Balance.QUEUES, True, (None, terms)),
            ("Messages", Balance.MESSAGES, True, (terms, None)),
            ("Queues", Balance.MESSAGES, False, (None, terms)),
            ("Queues", Balance.QUEUES, True, (None, terms)),
        ):
            members.follow(balance=balance, now=now, leftovers=leftovers)
            await members.ask("a")
            source = members.answers["a"].source
            assert (source.messages, source.leftovers) == expected

    asyncio.run(story())


def test_members_that_keep_the_order_get_queues_and_may_pop_leftovers_too() -> None:
    async def story() -> None:
        members = Members()
        terms = PopTerms(["orders%v2"], 60.0, 1, 16, 10.0)
        members.follow()
        members.clock.now = 10.0
        for is_wanted, is_ordered, leftovers, expected in (
            (True, True, False, (terms, None)),
            (True, True, True, (terms, terms)),
            (True, False, False, (None, terms)),  # what was popped without an order
            (False, True, False, (None, None)),
            (False, True, True, (None, terms)),
        ):
            members.follow(
                Assigned("a", queues=[OwnedQueues("orders%v2", "broker-a", "0-1")]),
                balance="Messages", now=Balance.MESSAGES, leftovers=leftovers,
                ordered=is_ordered, messages={"ordered": is_wanted},
            )  # fmt: skip
            granted = await members.ask("a")
            source = members.answers["a"].source
            assert source.messages is None
            assert (source.ordered, source.leftovers) == expected
            assert granted

    asyncio.run(story())
