"""A reader advances a position when it returns a batch, and leaves no queue out."""

import pytest

from mq_client import errors
from mq_client.blocking import Client
from mq_client.commands.pulling import Pull
from mq_client.frames import Frame
from mq_client.pulling import ENOUGH_BYTES, LEAST_BYTES, READER_BYTES, Batch, Position, share
from mq_client.values import MessageQueue
from tests.peer import END, Peer

NOT_PERMITTED = 16


def positions(count: int) -> list[Position]:
    return [Position(MessageQueue("orders", "broker-a", number), 0, END) for number in range(count)]


def offsets(batches: list[Batch]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for batch in batches:
        found.setdefault(batch.queue.id, []).extend(range(batch.first, batch.stop))
    return found


def everything(count: int) -> dict[int, list[int]]:
    return {number: list(range(END)) for number in range(count)}


def test_all_batches_of_all_queues_are_given(client: Client) -> None:
    assert offsets(list(client.read("g", positions(4)))) == everything(4)


def test_a_position_stands_behind_the_batch_that_was_given_last(
    client: Client, small_batches: None
) -> None:
    (position,) = positions(1)
    for batch in client.read("g", [position]):
        client.list_topics()  # the peer answers the next pull before this request
        assert position.next == batch.stop


def test_who_leaves_off_reads_on_with_the_same_positions(
    client: Client, small_batches: None
) -> None:
    both = positions(2)
    given: list[Batch] = []
    while not all(position.is_done for position in both):
        for batch in client.read("g", both):
            given.append(batch)
            client.list_topics()
            break
    assert offsets(given) == everything(2)


def test_a_queue_that_failed_is_pulled_again_by_who_iterates_again(
    peer: Peer, client: Client, small_batches: None
) -> None:
    refusals = [NOT_PERMITTED, NOT_PERMITTED]

    def refuses(frame: Frame) -> int:
        is_meant = frame.code == Pull.code and frame.fields["queueId"] == "1"
        return refusals.pop() if is_meant and refusals else 0

    peer.refuses = refuses
    reader = client.read("g", positions(2))
    given: list[Batch] = []
    failures = 0
    for _ in range(3):
        try:
            for batch in reader:
                given.append(batch)  # noqa: PERF402  # what came before an error has to stay
        except errors.NotPermittedError:
            failures += 1
    assert failures == 2
    assert offsets(given) == everything(2)


@pytest.mark.parametrize(
    ("queues", "size"), [(1, ENOUGH_BYTES), (8, ENOUGH_BYTES), (48, 699_050), (5000, LEAST_BYTES)]
)
def test_queues_share_what_a_reader_may_hold(queues: int, size: int) -> None:
    assert share(READER_BYTES, queues) == size


def test_a_reader_asks_for_no_more_than_each_queues_share(peer: Peer, client: Client) -> None:
    assert offsets(list(client.read("g", positions(4), 2 * 1024 * 1024))) == everything(4)
    assert peer.asked_bytes == {256 * 1024}


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each pull return a small batch."""
    monkeypatch.setattr("mq_client.operations.pulling.ENOUGH_BYTES", 0)
