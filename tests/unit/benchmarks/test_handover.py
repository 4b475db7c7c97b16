"""How the handover benchmark evaluates messages that were sent and consumed."""

import pytest

from benchmarks.handover.effects import Consumed, Effect, Mark, Outcome, Sent, measure
from generate import handover
from mq_client.values import MessageQueue

ONE, TWO = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
CALM, STORM = "calm", "storm"


def played(*consumed: Consumed, sent: Sent | None = None) -> Outcome:
    """Two events of ten seconds, CALM and STORM; after them, queue TWO has another owner."""
    marks = [
        Mark(CALM, 0.0, {ONE: "a", TWO: "a"}),
        Mark(STORM, 10.0, {ONE: "a", TWO: "a"}),
        Mark("the end", 20.0, {ONE: "a", TWO: "b"}),
    ]
    return measure(consumed, marks, sent or Sent([(0.0, 4)]))


def storm(*consumed: Consumed, sent: Sent | None = None) -> Effect:
    return played(*consumed, sent=sent).effects[STORM]


def read(at: float, queue: MessageQueue, *numbers: int, by: str = "a") -> Consumed:
    return Consumed(at, queue, numbers, by)


def test_a_standstill_counts_where_it_ends_and_queues_add_theirs_up() -> None:
    found = storm(
        read(8, ONE, 0), read(9, TWO, 1), read(12, ONE, 2), read(15, TWO, 3), read(16, ONE)
    )
    assert (found.standstill, found.queue_seconds) == (6.0, 10.0)
    assert played(read(8, ONE, 0), read(12, ONE, 1)).effects[CALM].standstill == 8.0


def test_a_new_queue_stands_still_from_the_begin_of_its_event_on() -> None:
    assert storm(read(9, ONE, 0), read(11, ONE, 1), read(13, TWO, 2)).standstill == 3.0


def test_what_comes_again_is_counted_when_it_comes_and_what_never_comes_is_lost() -> None:
    found = played(read(8, ONE, 0, 1), read(12, TWO, 1, 2))
    assert (found.duplicates, found.effects[STORM].duplicates) == (1, 1)
    assert (found.effects[CALM].duplicates, found.lost, found.sent) == (0, 1, 4)


def test_what_was_not_confirmed_may_be_missing() -> None:
    sent = Sent([(0.0, 4)], frozenset({3}))
    assert played(read(8, ONE, 0, 1, 2), read(12, TWO), sent=sent).lost == 0


def test_the_backlog_is_what_was_sent_and_not_consumed() -> None:
    sent = Sent([(1.0, 2), (11.0, 5), (12.0, 6)])
    found = played(read(2, ONE, 0), read(13, ONE, 1, 2, 3, 4), read(14, TWO, 5), sent=sent)
    assert (found.effects[CALM].backlog, found.effects[STORM].backlog) == (2, 5)


@pytest.mark.parametrize(
    ("reads", "seconds"),
    [
        ([read(12, TWO, 1, by="a")], None),
        ([read(12, TWO, 1, by="b")], 2.0),
        ([read(12, TWO, 1, by="b"), read(13, TWO, 2, by="a")], None),
        ([read(11, TWO, 1, by="a"), read(13, TWO, 2, by="b"), read(14, TWO, 3, by="b")], 3.0),
        ([read(13, ONE, 1, by="b"), read(17, TWO, 2, by="c")], 7.0),
    ],
)
def test_a_queue_is_taken_up_when_its_last_reader_begins(
    reads: list[Consumed], seconds: float | None
) -> None:
    assert storm(read(8, ONE, 0), read(8, TWO), *reads).taken_up == seconds


def test_queues_that_have_another_owner_afterwards_have_moved() -> None:
    assert storm(read(8, ONE, 0), read(12, ONE, 1)).moved == 1


RESULTS = """
quiet
  Evenkeel                        0       0        0.11   1.42     11.4    11.4    1,080         -
  DefaultMQPushConsumer           0       0        0.11   0.21      1.5     1.5       55         -
one is frozen (Evenkeel 12.7x faster)
  Evenkeel                        0       0       0.11   10.87     86.9    86.9    4,600     174.9
  DefaultMQPushConsumer           5       4      0.11   137.81    552.4   552.4   27,560     137.8
one is cut off
  Evenkeel                        0       0       0.11   10.13     81.1    81.1    4,200      40.0
  DefaultMQPushConsumer          17       4      0.11   116.45    466.4   466.4   23,280     116.4
queues are added
  Evenkeel                        0       0        0.11   1.86     17.4    17.4      680       1.9
  DefaultMQPushConsumer           0       0       0.11   37.33    111.1   111.1    2,446      37.3
a broker is killed
  Evenkeel                        0       0       0.11   45.23    542.8   542.8   18,675         -
  DefaultMQPushConsumer           0       0        0.11   8.33     51.3    51.3      240         -

Evenkeel, round 1: sent 217,720, lost 0, duplicated 0
Evenkeel, round 2: sent 217,720, lost 0, duplicated 3
DefaultMQPushConsumer, round 1: sent 188,640, lost 0, duplicated 56,483
DefaultMQPushConsumer, round 2: sent 188,640, lost 0, duplicated 1,000
"""


def test_the_table_of_the_readme_has_one_number_a_cell_of_the_worst_round() -> None:
    cells = [line.split(" | ")[1:] for line in handover.make_table(RESULTS).splitlines()[2:]]
    assert cells == [
        ["**10.9 s**", "137.8 s |"],
        ["**10.1 s**", "116.5 s |"],
        ["**1.9 s**", "37.3 s |"],
        ["**3**", "56,483 |"],
        ["1.4 s", "**0.2 s** |"],
        ["45.2 s", "**8.3 s** |"],
    ]


def test_a_page_of_results_without_an_event_is_an_error() -> None:
    without = RESULTS.replace("one is frozen", "one is thawed")
    with pytest.raises(ValueError, match="one is frozen"):
        handover.make_table(without)
