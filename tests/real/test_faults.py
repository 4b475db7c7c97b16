"""While brokers and name servers die, a pull sequence loses nothing and repeats nothing."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest

from mq_client import errors
from mq_client.blocking import Client
from mq_client.choosers import To
from mq_client.commands.base import Done
from mq_client.commands.offsets import GetMaxOffset
from mq_client.directory import Times
from mq_client.messages import Message
from mq_client.operations import routing
from mq_client.operations.routing import BrokerChoice
from mq_client.pulling import Position
from mq_client.values import MessageQueue, TopicConfig
from sandbox import asking, jars, rocketmq
from sandbox.waiting import wait_for
from tests.answers import Answers

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

MESSAGES = 200_000
A_BATCH = 500


@pytest.fixture
def mq() -> Iterator[rocketmq.RocketMq]:
    with rocketmq.run(brokers=2) as running:
        yield running


@pytest.fixture
def client(mq: rocketmq.RocketMq) -> Iterator[Client]:
    with Client(mq.name_server.address) as connected:
        yield connected


def make_topic(client: Client, name: str, queues: int) -> list[MessageQueue]:
    client.put_topics([TopicConfig(name, queues, queues), TopicConfig(f"{name}-other", 1, 1)])
    return client.find_route(name, max_age=0).readable


def send_numbers(client: Client, queues: list[MessageQueue], count: int) -> None:
    """Send the numbers below `count`, spread over all queues."""
    for place, start in enumerate(range(0, count, A_BATCH)):
        queue = queues[place % len(queues)]
        numbers = range(start, min(start + A_BATCH, count))
        client.send([Message(queue.topic, b"%d" % number) for number in numbers], To(queue))


def ends(client: Client, queues: list[MessageQueue], count: int) -> dict[MessageQueue, int]:
    """Wait until the brokers show all messages; return where each queue ends."""
    while True:
        found = client.list_offsets(queues[0].topic)
        if sum(place.max for place in found.values()) == count:
            return {queue: found[queue].max for queue in queues}


def offsets_up_to(end: int, client: Client, position: Position) -> list[int]:
    """Pull up to an offset, in as many batches as needed; return the offsets."""
    seen: list[int] = []
    while position.next < end:
        batch = client.pull_batch("readers", position)
        assert batch is not None
        seen += [message.queue_offset for message in batch.to_messages()]
    return seen


def test_a_broker_killed_three_times_in_mid_pull_loses_and_doubles_nothing(
    mq: rocketmq.RocketMq, client: Client
) -> None:
    queues = make_topic(client, "numbers", queues=4)
    send_numbers(client, queues, MESSAGES)
    positions = [Position(queue, 0, end) for queue, end in ends(client, queues, MESSAGES).items()]
    victims = [mq.brokers[name] for name in ("broker-a", "broker-b", "broker-a")]
    restarts: list[threading.Thread] = []
    numbers: list[int] = []
    next_offset = dict.fromkeys(queues, 0)
    for batch in client.read("readers", positions):
        for message in batch.to_messages():
            assert message.queue_offset == next_offset[batch.queue]
            next_offset[batch.queue] += 1
            numbers.append(int(message.body))
        if victims and len(numbers) > MESSAGES * (4 - len(victims)) // 8:
            for restart in restarts:
                restart.join()
            victim = victims.pop(0)
            assert any(not p.is_done for p in positions if p.queue.broker == victim.name)
            victim.kill()
            restarts.append(threading.Thread(target=victim.restart))
            restarts[-1].start()
    assert not victims
    for restart in restarts:
        restart.join()  # a broker is read before the name server knows it
    assert sorted(numbers) == list(range(MESSAGES))


def test_a_broker_that_moved_to_another_port_is_found_again(
    mq: rocketmq.RocketMq, client: Client
) -> None:
    queues = [q for q in make_topic(client, "moving", queues=1) if q.broker == "broker-a"]
    send_numbers(client, queues, 20)
    broker = mq.brokers["broker-a"]
    before = broker.address
    position = Position(queues[0], 0)
    assert offsets_up_to(20, client, position) == list(range(20))
    broker.kill()
    broker.move()
    assert broker.address != before
    send_numbers(client, queues, 10)
    assert offsets_up_to(30, client, position) == list(range(20, 30))


@dataclass(frozen=True, slots=True)
class ForgetBroker(Done):
    """Make a name server forget a broker, as it does when their connection ends."""

    code: ClassVar[int] = 104
    name: ClassVar[str] = "UNREGISTER_BROKER"
    broker_name: str
    broker_addr: str
    broker_id: int = 0
    cluster_name: str = rocketmq.CLUSTER


def test_a_broker_that_its_route_has_lost_is_read_on(mq: rocketmq.RocketMq, client: Client) -> None:
    queue, *_ = (q for q in make_topic(client, "orders", queues=1) if q.broker == "broker-a")
    send_numbers(client, [queue], 20)
    broker = mq.brokers[queue.broker]

    def lose() -> bool:
        """The broker registers again every 10 s, so this may be needed more than once."""
        asking.ask(mq.name_server.address, ForgetBroker(broker.name, broker.address))
        return client.find_route("orders", max_age=0).find_broker(broker.name) is None

    assert wait_for(lose, bool)
    choice = BrokerChoice.from_queue(queue)
    assert client.engine.run(routing.find_address(client.directory, choice)) == broker.address
    assert offsets_up_to(20, client, Position(queue, 0)) == list(range(20))


def test_a_name_server_may_be_gone_or_new_while_the_route_is_known(mq: rocketmq.RocketMq) -> None:
    with Client(mq.name_server.address, times=Times(route_age=0.0)) as client:
        queues = make_topic(client, "orders", queues=1)
        mq.name_server.kill()
        send_numbers(client, queues, 20)
        assert sum(place.max for place in client.list_offsets("orders").values()) <= 20
        with pytest.raises(errors.NoNameServerError, match=mq.name_server.address):
            client.find_route("orders")
        mq.name_server.restart()  # the new process knows no topic before the brokers register
        send_numbers(client, queues, 20)


def test_a_broker_that_stays_away_is_an_error_that_names_it_when_patience_ends(
    mq: rocketmq.RocketMq,
) -> None:
    with Client(mq.name_server.address, times=Times(patience=1.0)) as client:
        queue = make_topic(client, "orders", queues=1)[0]
        position = Position(queue, 0)
        mq.brokers[queue.broker].kill()
        with pytest.raises(errors.UnavailableError, match=r"broker-a|127\.0\.0\.1"):
            client.pull_batch("readers", position)
        assert position.next == 0


def test_a_slave_is_read_while_the_master_is_gone_and_one_that_lags_loses_nothing() -> None:
    with rocketmq.run(brokers=1, slaves=1) as mq, Client(mq.name_server.address) as client:
        mq.create_topics({"orders": 1})
        (queue,) = client.find_route("orders", max_age=0).readable
        master, slave = mq.brokers["broker-a"], mq.slaves["broker-a-slave-1"]
        send_numbers(client, [queue], 20)
        position = Position(queue, 0)
        asked = GetMaxOffset("orders", queue.id)
        assert wait_for(lambda: asking.ask(slave.address, asked), lambda end: end == 20) == 20
        master.kill()
        assert offsets_up_to(20, client, position) == list(range(20))
        route = client.find_route("orders", max_age=0).find_broker("broker-a")
        assert route is not None
        assert route.addresses == {1: slave.address}
        master.restart()
        send_numbers(client, [queue], 10)
        assert offsets_up_to(30, client, position) == list(range(20, 30))
        assert wait_for(lambda: asking.ask(slave.address, asked), lambda end: end == 30) == 30
        slave.kill()
        send_numbers(client, [queue], 10)
        master.kill()
        slave.restart()
        behind = Position(queue, 35, 40, allow_gaps=True)
        with (
            Answers(mq.name_server.address) as relay,
            Client(relay.address, times=Times(patience=1.0)) as reader,
        ):
            with pytest.raises(errors.UnavailableError, match="from offset 35: all retries failed"):
                reader.pull_batch("readers", behind)
            assert (behind.next, behind.gaps) == (35, [])
            assert 2 <= len(relay.pulls) <= 10  # with pauses from 0.1 s on
        master.restart()
        assert offsets_up_to(40, client, behind) == list(range(35, 40))
        assert behind.gaps == []
