"""How queues are written in requests and answers between member and coordinator."""

from contract.assignment import QueueIds
from follower.queues import read_queues, show_queues, write_queues
from mq_client.values import MessageQueue

QUEUES = [MessageQueue("orders", "broker-a", each) for each in (8, 0, 1, 2)]
QUEUES.append(MessageQueue("orders", "broker-b", 1))


def test_queues_are_written_as_ranges_and_read_back() -> None:
    written = write_queues(QUEUES)
    assert written == [QueueIds("orders", "broker-a", "0-2,8"), QueueIds("orders", "broker-b", "1")]
    assert read_queues(written) == frozenset(QUEUES)


def test_people_see_them_in_one_line() -> None:
    assert show_queues(QUEUES) == "orders@broker-a 0-2,8, orders@broker-b 1"
