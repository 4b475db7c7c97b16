"""Queues as ranges of ids."""

import pytest

from contract.assignment import QueueIds
from evenkeel.members import queue_ids
from lb_core.errors import AllocationError
from mq_client.values import MessageQueue


def test_queues_are_written_as_ranges_and_read_back() -> None:
    queues = frozenset(
        [MessageQueue("orders", "broker-a", number) for number in (0, 1, 2, 8, 10, 11)]
        + [MessageQueue("orders", "broker-b", 3), MessageQueue("bills", "broker-a", 0)]
    )
    written = queue_ids.write_queues(queues)
    assert written == [
        QueueIds("bills", "broker-a", "0"),
        QueueIds("orders", "broker-a", "0-2,8,10-11"),
        QueueIds("orders", "broker-b", "3"),
    ]
    assert queue_ids.read_queues(written) == queues


def test_a_short_text_may_not_stand_for_billions_of_queues() -> None:
    with pytest.raises(AllocationError, match="2,147,483,000 queues"):
        queue_ids.read_queues([QueueIds("orders", "broker-a", "1-2147483000")])


def test_what_is_no_range_is_refused() -> None:
    with pytest.raises(AllocationError, match="not an id"):
        queue_ids.read_queues([QueueIds("orders", "broker-a", "a-b")])
