"""What a task does where the broker lost what was planned."""

from collections.abc import Iterable, Iterator

import pytest

from mq_client import filters
from mq_client.pulling import Batch, Position
from mq_client.values import Queue
from spark_jobs import connections, fetch, options
from spark_jobs.options import Cluster
from spark_jobs.planning import DataLossError, Range
from tests import stored

QUEUE = Queue("orders", "broker-a", 3)
CLUSTER = options.sending({"nameServers": "mq:9876"}).cluster


class Broker:
    """Holds two messages, and never answers where there is nothing."""

    end = 2
    skipped: frozenset[int] | set[int] = frozenset()

    def __init__(self) -> None:
        self.positions: list[Position] = []

    def read(self, group: str, positions: Iterable[Position]) -> "Broker":
        self.positions = list(positions)
        return self

    def within(self, seconds: float) -> Iterator[Batch]:
        for position in self.positions:
            stop = position.cut(self.end)
            if position.next < stop:
                present = [n for n in range(position.next, stop) if n not in self.skipped]
                data = b"".join(stored.message(offset=n) for n in present)
                first, position.next = position.next, stop
                yield Batch(position.queue, first, stop, data)

    def max_offset(self, queue: Queue) -> int:
        return self.end


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()

    def client(cluster: Cluster) -> Broker:
        return made

    monkeypatch.setattr(connections, "client", client)
    return made


def offsets(
    stop: int, *, allow_gaps: bool = False, gaps: list[Range] | None = None
) -> Iterator[int]:
    for batch in fetch.fetch(
        [Range(QUEUE, 0, stop)], CLUSTER, "g", filters.EVERYTHING,
        allow_gaps=allow_gaps, include_properties=False, gaps=gaps,
    ):  # fmt: skip
        yield from batch["queue_offset"].to_pylist()


def test_a_task_ends_when_all_of_its_range_was_read() -> None:
    assert list(offsets(2)) == [0, 1]
    assert list(offsets(1)) == [0]


def test_a_range_that_the_broker_lost_the_end_of_is_an_error_and_no_endless_wait() -> None:
    reading = offsets(5)
    assert [next(reading), next(reading)] == [0, 1]
    with pytest.raises(DataLossError, match=r"broker-a 3 ends at 2, but .* up to 5"):
        next(reading)


def test_where_gaps_are_allowed_what_the_broker_lost_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gaps: list[Range] = []
    assert list(offsets(5, allow_gaps=True, gaps=gaps)) == [0, 1]
    assert gaps == [Range(QUEUE, 2, 5)]
    assert caplog.messages == ["messages are lost: orders@broker-a 3: offsets 2 to 4"]


def test_rows_and_gaps_make_up_what_was_planned_or_the_task_fails(broker: Broker) -> None:
    broker.end, broker.skipped = 5, {2}
    reading = offsets(5)
    assert [next(reading) for _ in range(4)] == [0, 1, 3, 4]
    with pytest.raises(DataLossError, match="offsets 0 to 4 gave 4 rows, and 0"):
        next(reading)
