"""How a task reacts if the broker has lost planned messages."""

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
import pytest

from mq_client import errors, filters
from mq_client.directory import Directory
from mq_client.errors import CorruptMessageError, UnavailableError
from mq_client.machine import Machine
from mq_client.messages import Unreadable
from mq_client.operations import offsets as offsets_of_queues
from mq_client.pulling import Batch, BeyondEndError, Position
from mq_client.values import MessageQueue
from spark_jobs import connections, fetch, options
from spark_jobs.options import ClusterOptions
from spark_jobs.pipeline.fetching import Spec, Tallies, Tally, UnreadablePuller
from spark_jobs.planning import DataLossError, Range
from tests import stored

QUEUE = MessageQueue("orders", "broker-a", 3)
CLUSTER = options.parse_sending({"nameServers": "mq:9876"}).cluster


class Broker:
    """A broker with two messages. It never answers a poll at offsets that have no message."""

    end = 2
    skipped: frozenset[int] | set[int] = frozenset()
    broken: frozenset[int] = frozenset()
    """Offsets of messages whose checksum is wrong."""

    def __init__(self) -> None:
        self.positions: list[Position] = []
        self.directory = Directory(["mq:9876"], Machine())

    def read(self, group: str, positions: Iterable[Position], budget: int) -> "Broker":
        self.positions = list(positions)
        return self

    says_so = False
    """Whether a poll raises an error if the position is beyond the end."""
    slow = 0
    """How many polls return no message."""

    def poll(self, seconds: float) -> Iterator[Batch]:
        if self.slow:
            self.slow -= 1
            return
        for position in self.positions:
            stop = position.cut(self.end)
            if position.next < stop:
                present = [n for n in range(position.next, stop) if n not in self.skipped]
                data = b"".join(
                    stored.message(offset=n, crc=1 if n in self.broken else None) for n in present
                )
                first, position.next = position.next, stop
                yield Batch(position.queue, first, stop, data)
            elif self.says_so and position.next > self.end:
                raise BeyondEndError(position, self.end)

    def start(self, asked: int | errors.MqError) -> int | errors.MqError:
        return asked

    def wait(self, asked: int | errors.MqError) -> int:
        if isinstance(asked, errors.MqError):
            raise asked
        return asked

    master: errors.MqError | None = None

    def find_master_max_offset(
        self, directory: object, queue: MessageQueue
    ) -> int | errors.MqError:
        return self.master or self.end


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(offsets_of_queues, "find_master_max_offset", made.find_master_max_offset)

    def client(cluster: ClusterOptions) -> Broker:
        return made

    monkeypatch.setattr(connections, "get_client", client)
    return made


def offsets(
    stop: int,
    *,
    allow_gaps: bool = False,
    gaps: list[Range] | None = None,
    unreadable: list[Unreadable] | None = None,
) -> Iterator[int]:
    for batch in fetch.fetch(
        [Range(QUEUE, 0, stop)], CLUSTER, "g", filters.EVERYTHING,
        allow_gaps=allow_gaps, include_properties=False, gaps=gaps, unreadable=unreadable,
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


def test_a_queue_that_was_made_anew_is_a_loss_without_another_question(broker: Broker) -> None:
    broker.end, broker.says_so = 5, True
    broker.master = errors.NoBrokerError("nobody may be asked")
    reading = offsets(9)
    assert [next(reading) for _ in range(5)] == [0, 1, 2, 3, 4]
    broker.end = 2
    with pytest.raises(DataLossError, match=r"broker-a 3 ends at 2, but .* up to 9"):
        next(reading)
    gaps: list[Range] = []
    broker.end = 5
    lenient = offsets(9, allow_gaps=True, gaps=gaps)
    assert [next(lenient) for _ in range(5)] == [0, 1, 2, 3, 4]
    broker.end = 2
    assert list(lenient) == []
    assert gaps == [Range(QUEUE, 5, 9)]


def test_rows_and_gaps_make_up_what_was_planned_or_the_task_fails(broker: Broker) -> None:
    broker.end, broker.skipped = 5, {2}
    reading = offsets(5)
    assert [next(reading) for _ in range(4)] == [0, 1, 3, 4]
    with pytest.raises(DataLossError, match="offsets 0 to 4 gave 4 rows, and 0"):
        next(reading)


@pytest.mark.parametrize("allow_gaps", [False, True])
def test_while_the_master_is_away_the_end_of_a_range_is_waited_for(
    broker: Broker, allow_gaps: bool
) -> None:
    """A queue can end earlier on a slave that replaces the master. That is no loss."""
    broker.master = errors.NoBrokerError("broker-a has no master now")
    gaps: list[Range] = []
    reading = offsets(3, allow_gaps=allow_gaps, gaps=gaps)
    assert [next(reading), next(reading)] == [0, 1]
    asked: list[int] = []

    def comes_back(directory: object, queue: MessageQueue) -> int | errors.MqError:
        asked.append(queue.id)
        if len(asked) == 3:
            broker.master, broker.end = None, 3
        return broker.master or broker.end

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(offsets_of_queues, "find_master_max_offset", comes_back)
        assert list(reading) == [2]
    assert (len(asked), gaps) == (3, [])


def test_a_range_is_cut_at_its_end_only_when_all_before_it_was_read(broker: Broker) -> None:
    """A slow broker has lost the last messages. The messages that it still has are read first."""
    gaps: list[Range] = []
    broker.slow = 2
    assert list(offsets(5, allow_gaps=True, gaps=gaps)) == [0, 1]
    assert gaps == [Range(QUEUE, 2, 5)]


def test_a_broker_that_has_more_and_never_gives_it_is_an_error(broker: Broker) -> None:
    broker.slow = 20
    assert list(offsets(2)) == [0, 1]
    broker.slow = 40
    with pytest.raises(errors.UnavailableError, match=r"broker-a 3 from offset 0: .* no message"):
        list(offsets(2))


def test_a_message_that_cannot_be_read_is_an_error_unless_somebody_said_what_to_do(
    broker: Broker,
) -> None:
    broker.broken = frozenset({1})
    with pytest.raises(CorruptMessageError, match="queue 3 offset 1: the checksum"):
        list(offsets(2))


def test_a_message_that_cannot_be_read_is_a_gap_where_gaps_are_allowed(broker: Broker) -> None:
    broker.broken = frozenset({0})
    gaps: list[Range] = []
    assert list(offsets(2, allow_gaps=True, gaps=gaps)) == [1]
    assert gaps == [Range(QUEUE, 0, 1)]


def test_a_message_that_cannot_be_read_is_set_apart_for_the_dead_letters(broker: Broker) -> None:
    broker.broken = frozenset({0})
    found: list[Unreadable] = []
    gaps: list[Range] = []
    assert list(offsets(2, gaps=gaps, unreadable=found)) == [1]
    assert [(each.first, each.stop) for each in found] == [(0, 1)]
    assert gaps == []


def test_a_task_for_the_dead_letters_gives_a_row_for_each_message_that_cannot_be_read(
    broker: Broker,
) -> None:
    broker.broken = frozenset({1})
    reading = options.parse_reading({"nameServers": "mq:9876", "topics": "orders"}, is_stream=True)
    spec = Spec(None, None, [("orders", "broker-a", 3, 1, 2)], addresses={"broker-a": "a:1"})
    asked = pa.RecordBatch.from_pydict({"value": [msgspec.json.encode(spec).decode()]})
    (rows,) = UnreadablePuller(reading, filters.EVERYTHING)([asked])
    assert rows["queue_offset"].to_pylist() == [1]
    assert rows["body"].to_pylist() == [b"hello"]
    assert rows["_error"].to_pylist()[0].startswith("orders@broker-a 3 offset 1: the checksum")
    (unlisted,) = broker.directory.list_unlisted("orders")
    assert unlisted.find_address() == "a:1"
    broker.broken = frozenset()
    with pytest.raises(UnavailableError, match="which could not be read, can be read now"):
        list(UnreadablePuller(reading, filters.EVERYTHING)([asked]))


def test_what_tasks_tell_twice_is_buried_once_and_only_by_its_own_attempt() -> None:
    tally, added = Tally(), Tallies()
    for attempt, first in ((8, 1), (9, 7), (8, 1)):
        told = Tally(unreadable={attempt: [("orders", "broker-a", 3, first, first + 1)]})
        tally = added.addInPlace(tally, told)
    assert tally.find_unreadable(8) == [Range(QUEUE, 1, 2)]
    assert tally.find_unreadable(9) == [Range(QUEUE, 7, 8)]
    assert tally.find_unreadable(10) == []
