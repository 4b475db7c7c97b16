"""The members of a group, and their locks on queues, as real brokers keep and drop them."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from mq_client import aio, errors, filters, values
from mq_client.blocking import Client, membership
from mq_client.choosers import To
from mq_client.commands.membership import GetMemberIds, GetMembers
from mq_client.directory import Times
from mq_client.messages import Message
from mq_client.pulling import Position
from sandbox import asking, rocketmq, waiting
from sandbox.waiting import wait_for

SOON = 0.1
"""Seconds between heartbeats in tests that wait for the next one."""
LOCK_SECONDS = 1.0
WANTED = filters.match_tags("paid || refunded")


@pytest.fixture
def other(rocketmq: rocketmq.RocketMq) -> Iterator[Client]:
    """A second client."""
    with Client(rocketmq.name_server.address) as opened:
        yield opened


def ids_at(broker: rocketmq.Broker, group: str) -> list[str]:
    """Ask only this broker for the group's clients."""
    try:
        return asking.ask(broker.address, GetMemberIds(group))
    except errors.GroupEmptyError:
        return []


# --- joining and leaving


def test_every_broker_knows_a_member_and_its_subscriptions(
    rocketmq: rocketmq.RocketMq, client: Client, topic: str, group: str
) -> None:
    with client.join(group, "member", {topic: WANTED}) as joined:
        assert joined.failures == {}
        for broker in rocketmq.brokers.values():
            found = asking.ask(broker.address, GetMembers(group))
            assert [(each.client_id, each.language) for each in found.members] == [
                ("member", "PYTHON")
            ]
            assert found.subscriptions == {topic: WANTED.expression}


def test_members_of_all_brokers_are_shown_together(
    rocketmq: rocketmq.RocketMq, client: Client, other: Client, unique_name: str, group: str
) -> None:
    """The second member reads a topic that only one of the brokers has."""
    both, only_b = unique_name, f"{unique_name}-b"
    rocketmq.create_topics({both: 1})
    rocketmq.create_topics({only_b: 1}, brokers=["broker-b"])
    with (
        client.join(group, "member-1", {both: WANTED}),
        other.join(group, "member-2", {only_b: filters.EVERYTHING}),
    ):
        assert client.list_member_ids(group, both) == ["member-1", "member-2"]
        assert ids_at(rocketmq.brokers["broker-a"], group) == ["member-1"]
        found = client.list_members(group, both)
    assert [each.client_id for each in found.members] == ["member-1", "member-2"]
    assert found.subscriptions.items() >= {only_b: filters.ALL}.items()
    assert (found.consume_type, found.message_model) == ("CONSUME_ACTIVELY", "CLUSTERING")


def test_a_member_that_leaves_is_gone_at_once(
    rocketmq: rocketmq.RocketMq, client: Client, other: Client, topic: str, group: str
) -> None:
    with client.join(group, "member-1", {topic: WANTED}):
        with other.join(group, "member-2", {topic: WANTED}):
            pass
        assert client.list_member_ids(group, topic) == ["member-1"]
        assert [each.client_id for each in client.list_members(group, topic).members] == [
            "member-1"
        ]
    assert client.list_member_ids(group, topic) == []
    assert client.list_members(group, topic).members == ()


def test_a_member_whose_client_is_closed_is_gone_without_having_left(
    rocketmq: rocketmq.RocketMq, client: Client, topic: str, group: str
) -> None:
    with Client(rocketmq.name_server.address) as other:
        other.join(group, "member", {topic: WANTED})
        assert client.list_member_ids(group, topic) == ["member"]
    assert wait_for(lambda: client.list_member_ids(group, topic), lambda ids: not ids) == []


def test_a_client_may_be_closed_before_its_membership_is_left_and_twice(
    rocketmq: rocketmq.RocketMq, topic: str, group: str
) -> None:
    client = Client(rocketmq.name_server.address)
    with client.join(group, "member", {topic: WANTED}):
        client.close()
    client.close()


def test_a_client_is_one_member_of_a_group_at_a_time(
    client: Client, topic: str, group: str
) -> None:
    with client.join(group, "member-1", {topic: WANTED}):
        with pytest.raises(errors.UsageError, match="is already a member of"):
            client.join(group, "member-2", {topic: WANTED})
        with client.join(f"{group}-other", "member-1", {topic: WANTED}):
            pass
    with client.join(group, "member-2", {topic: WANTED}):
        assert client.list_member_ids(group, topic) == ["member-2"]


def test_a_member_hears_of_one_that_joins_and_of_one_that_leaves(
    rocketmq: rocketmq.RocketMq, client: Client, other: Client, topic: str, group: str
) -> None:
    """Each broker notifies each member of each change, also the one that has just joined."""
    brokers = len(rocketmq.brokers)
    notices: list[str] = []

    def eventually_heard(count: int) -> int:
        return wait_for(lambda: len(notices), lambda heard: heard >= count)

    with client.join(group, "member-1", {topic: WANTED}, lambda: notices.append(group)):
        assert eventually_heard(brokers) == brokers
        with other.join(group, "member-2", {topic: WANTED}):
            assert eventually_heard(2 * brokers) == 2 * brokers
        assert eventually_heard(3 * brokers) == 3 * brokers


def test_a_member_by_asyncio_is_known_until_it_unregisters(
    rocketmq: rocketmq.RocketMq, topic: str, group: str
) -> None:
    async def main() -> None:
        async with aio.Client(rocketmq.name_server.address) as client:
            assert await client.send_heartbeat(group, "member", {topic: WANTED}) == {}
            assert await client.list_member_ids(group, topic) == ["member"]
            for broker in rocketmq.brokers.values():
                found = await asyncio.to_thread(asking.ask, broker.address, GetMembers(group))
                assert [each.client_id for each in found.members] == ["member"]
                assert found.subscriptions == {topic: WANTED.expression}
            assert await client.unregister(group, "member", [topic]) == {}
            assert await client.list_member_ids(group, topic) == []

    asyncio.run(main())


def test_a_member_by_asyncio_hears_of_one_that_joins(
    rocketmq: rocketmq.RocketMq, topic: str, group: str
) -> None:
    own_notices = len(rocketmq.brokers)

    async def main() -> None:
        notices: asyncio.Queue[str] = asyncio.Queue()
        address = rocketmq.name_server.address
        async with aio.Client(address) as client, aio.Client(address) as other:
            client.watch_members(group, lambda: notices.put_nowait(group))
            await client.send_heartbeat(group, "member-1", {topic: WANTED})
            async with asyncio.timeout(waiting.PATIENCE_SECONDS):
                for _ in range(own_notices):
                    await notices.get()
                await other.send_heartbeat(group, "member-2", {topic: WANTED})
                await notices.get()

    asyncio.run(main())


def test_a_second_heartbeat_changes_nothing_and_tells_nobody(
    rocketmq: rocketmq.RocketMq, topic: str, group: str
) -> None:
    own_notices = len(rocketmq.brokers)

    async def main() -> None:
        notices: asyncio.Queue[str] = asyncio.Queue()
        async with aio.Client(rocketmq.name_server.address) as client:
            client.watch_members(group, lambda: notices.put_nowait(group))
            await client.send_heartbeat(group, "member", {topic: WANTED})
            async with asyncio.timeout(waiting.PATIENCE_SECONDS):
                for _ in range(own_notices):
                    await notices.get()
            # On one connection, a broker's notification would come before its answer.
            await client.send_heartbeat(group, "member", {topic: WANTED})
            await client.list_member_ids(group, topic)
            assert notices.empty()

    asyncio.run(main())


# --- brokers and name servers that die


@pytest.fixture
def quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> Times:
    """Let members send heartbeats often, and soon notice changes."""
    monkeypatch.setattr(membership, "EVERY_SECONDS", SOON)
    return Times(route_age=SOON)


def test_a_broker_that_was_killed_and_restarted_sees_the_member_again(
    quick_heartbeats: Times,
) -> None:
    with (
        rocketmq.run(brokers=2) as mq,
        Client(mq.name_server.address, times=quick_heartbeats) as client,
    ):
        mq.create_topics({"orders": 1})
        broker = mq.brokers["broker-a"]
        with client.join("readers", "member", {"orders": WANTED}):
            broker.restart()
            assert wait_for(lambda: ids_at(broker, "readers"), bool) == ["member"]
            assert ids_at(mq.brokers["broker-b"], "readers") == ["member"]
        assert ids_at(broker, "readers") == []


def test_heartbeats_go_on_when_broker_and_name_server_were_away(quick_heartbeats: Times) -> None:
    """While the only broker is down, the name server does not know the topic."""
    with (
        rocketmq.run(brokers=1) as mq,
        Client(mq.name_server.address, times=quick_heartbeats) as client,
    ):
        mq.create_topics({"orders": 1})
        broker = mq.brokers["broker-a"]
        with client.join("readers", "member", {"orders": WANTED}) as joined:
            broker.kill()
            assert wait_for(lambda: dict(joined.failures), bool)
            mq.name_server.restart()
            broker.restart()
            assert wait_for(lambda: ids_at(broker, "readers"), bool) == ["member"]
            assert wait_for(lambda: dict(joined.failures), lambda found: not found) == {}


# --- locks


def test_of_two_clients_one_gets_a_lock_and_the_other_when_it_is_given_back(
    client: Client, other: Client, topic: str, group: str
) -> None:
    queues = sorted(client.find_route(topic).readable)
    assert client.lock(group, "one", queues) == queues
    assert other.lock(group, "two", queues) == []
    client.unlock(group, "one", queues[1:])
    assert other.lock(group, "two", queues) == queues[1:]
    assert client.lock(group, "one", queues) == queues[:1]


def test_a_lock_is_the_clients_own_and_only_in_its_group(
    client: Client, other: Client, queue: values.MessageQueue, group: str
) -> None:
    assert client.lock(group, "one", [queue]) == [queue]
    assert client.lock(group, "one", [queue]) == [queue]
    assert other.lock(f"{group}-other", "two", [queue]) == [queue]
    other.unlock(group, "two", [queue])
    assert other.lock(group, "two", [queue]) == []


def test_nobody_is_kept_from_reading_and_committing_by_a_lock(
    client: Client, other: Client, queue: values.MessageQueue, group: str
) -> None:
    client.send([Message(queue.topic, b"x")], To(queue))
    assert client.lock(group, "one", [queue]) == [queue]
    (batch,) = other.read(group, [Position(queue, 0, stop=1)])
    other.commit(group, {queue: batch.stop})
    assert client.find_committed(group, queue) == 1


def test_a_lock_outlives_the_member_that_took_it(
    client: Client, other: Client, queue: values.MessageQueue, group: str
) -> None:
    with client.join(group, "one", {queue.topic: WANTED}):
        assert client.lock(group, "one", [queue]) == [queue]
    assert other.lock(group, "two", [queue]) == []


def test_a_lock_ends_by_itself_unless_it_is_taken_again() -> None:
    """By default a lock ends after a minute."""
    short = [f"-Drocketmq.broker.rebalance.lockMaxLiveTime={LOCK_SECONDS * 1000:.0f}"]
    with (
        rocketmq.run(brokers=1, java_options=short) as mq,
        Client(mq.name_server.address) as client,
    ):
        mq.create_topics({"orders": 1})
        queues = client.find_route("orders").readable
        since = time.monotonic()
        assert client.lock("readers", "one", queues) == queues
        assert wait_for(lambda: client.lock("readers", "two", queues), bool) == queues
        assert time.monotonic() - since >= LOCK_SECONDS


def test_a_lock_is_forgotten_by_a_broker_that_restarts() -> None:
    with rocketmq.run(brokers=1) as mq, Client(mq.name_server.address) as client:
        mq.create_topics({"orders": 1})
        queues = client.find_route("orders").readable
        assert client.lock("readers", "one", queues) == queues
        mq.brokers["broker-a"].restart()
        assert client.lock("readers", "two", queues) == queues
