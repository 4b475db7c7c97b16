"""How a reader treats each answer of a broker to a pull: it never skips messages silently."""

from dataclasses import replace
from typing import Any

import pytest

from mq_client import answers, errors, filters, wire
from mq_client.answers import Meaning
from mq_client.commands.pulling import Pull
from mq_client.filters import EVERYTHING, Filter
from mq_client.frames import Frame
from mq_client.operations import pulling
from mq_client.pulling import Batch, BeyondEndError, OffsetGoneError, Position
from mq_client.values import READ, BrokerMap, BrokerRoute, MessageQueue, Pulled, PullStatus, Route
from tests import stored
from tests.scripted import Stage

QUEUE = MessageQueue("orders", "broker-a", 3)
ASKED, END = 5, 20
PAID = filters.match_sql("paid")
FOUND, NEW, MATCHED, MOVED = PullStatus
ROUTE = Route("orders", (BrokerRoute("broker-a", "c", {0: "a:1"}, 4, 4, 6),))
SLAVE = Route("orders", (BrokerRoute("broker-a", "c", {1: "b:1"}, 4, 4, 6),))


def said(
    status: PullStatus, remark: str | None, next_offset: int, *offsets: int, least: int = 0
) -> Pulled:
    body = b"".join(stored.message(offset=n) for n in offsets)
    return Pulled(status, next_offset, least, END, 0, body, remark)


def found(*offsets: int, following: int | None = None) -> Pulled:
    return said(FOUND, "FOUND", offsets[-1] + 1 if following is None else following, *offsets)


def meaning(pulled: Pulled, wanted: Filter = EVERYTHING) -> tuple[Meaning, int]:
    answer = answers.read(pulled, QUEUE, ASKED, wanted)
    return answer.meaning, answer.stop


def numbers(batch: Batch | None) -> list[int]:
    assert batch is not None
    return [message.queue_offset for message in batch.to_messages()]


class Reading:
    """A pull sequence from 5 up to 8, with a clock that moves only when the sequence pauses."""

    def __init__(self, wanted: Filter = EVERYTHING, *, allow_gaps: bool = False) -> None:
        self.stage = Stage(first_pause=1, longest_pause=4, patience=10)
        self.position = Position(QUEUE, ASKED, 8, wanted, allow_gaps=allow_gaps)
        for address in ("a:1", "b:1"):
            self.stage.directory.filters_understood.add((address, wanted))

    def next(self, *script: Any) -> tuple[list[int], list[str]]:
        """Play the answers; return the offsets that came, and which brokers were asked."""
        flow = pulling.pull_batch(self.stage.directory, "g", self.position)
        batch, asked, _ = self.stage.play(flow, script)
        return ([] if batch is None else numbers(batch)), [one for one in asked if one != "ns:1"]


@pytest.mark.parametrize(
    ("pulled", "all_wanted", "some_wanted"),
    [
        (found(5, 6, 7), (Meaning.MESSAGES, 8), (Meaning.MESSAGES, 8)),
        (found(5, 6, following=9), (Meaning.MESSAGES, 7), (Meaning.MESSAGES, 9)),
        (found(5, 7, 8), (Meaning.MESSAGES, 6), (Meaning.MESSAGES, 9)),
        (found(7, 8), (Meaning.GONE, 7), (Meaning.MESSAGES, 9)),
        (said(FOUND, "FOUND", 9), (Meaning.GONE, 9), (Meaning.MESSAGES, 9)),
        (said(FOUND, "FOUND", 9, 7, 8, least=7), (Meaning.GONE, 7), (Meaning.GONE, 7)),
        (said(FOUND, "FOUND", 5), (Meaning.HELD, 5), (Meaning.HELD, 5)),
        (said(NEW, "OFFSET_OVERFLOW_ONE", 5), (Meaning.NOTHING_YET, 5), None),
        (said(NEW, "NO_MESSAGE_IN_QUEUE", 0), (Meaning.NOTHING_YET, 5), None),
        (said(NEW, "NO_MATCHED_LOGIC_QUEUE", 0), (Meaning.NOTHING_YET, 5), None),
        (said(NEW, "OFFSET_FOUND_NULL", 9), (Meaning.GONE, 9), (Meaning.GONE, 9)),
        (said(NEW, "OFFSET_FOUND_NULL", 999), (Meaning.GONE, END), None),
        (said(NEW, "OFFSET_FOUND_NULL", 5), (Meaning.HELD, 5), None),
        (said(MATCHED, "NO_MATCHED_MESSAGE", 9), (Meaning.GONE, 9), (Meaning.PASSED_OVER, 9)),
        (said(MATCHED, "NO_MATCHED_MESSAGE", 9, least=7), (Meaning.GONE, 9), (Meaning.GONE, 7)),
        (said(MATCHED, "NO_MATCHED_MESSAGE", 5), (Meaning.HELD, 5), (Meaning.HELD, 5)),
        (said(MATCHED, "MESSAGE_WAS_REMOVING", 9), (Meaning.GONE, 9), (Meaning.GONE, 9)),
        (said(MATCHED, "OFFSET_TOO_SMALL", 5, least=7), (Meaning.HELD, 5), None),
        (said(MATCHED, "OFFSET_OVERFLOW_ONE", 5), (Meaning.NOTHING_YET, 5), None),
        (said(MATCHED, "OFFSET_OVERFLOW_BADLY", 5), (Meaning.BEYOND_END, 5), None),
        (said(MATCHED, "NO_MESSAGE_IN_QUEUE", 5), (Meaning.BEYOND_END, 5), None),
        (said(MATCHED, "NO_MATCHED_LOGIC_QUEUE", 5), (Meaning.BEYOND_END, 5), None),
        (said(MATCHED, "OFFSET_FOUND_NULL", 5), (Meaning.HELD, 5), None),
        (said(MATCHED, "OFFSET_RESET", 9), (Meaning.RESET, 5), None),
        (said(MOVED, "OFFSET_TOO_SMALL", 7, least=7), (Meaning.GONE, 7), (Meaning.GONE, 7)),
        (said(MOVED, "OFFSET_OVERFLOW_BADLY", 3), (Meaning.BEYOND_END, 5), None),
        (said(MOVED, "NO_MESSAGE_IN_QUEUE", 0), (Meaning.BEYOND_END, 5), None),
        (said(MOVED, "NO_MATCHED_LOGIC_QUEUE", 0), (Meaning.BEYOND_END, 5), None),
        (said(MOVED, "OFFSET_RESET", 9), (Meaning.RESET, 5), (Meaning.RESET, 5)),
        (said(MOVED, "OFFSET_RESET", 0), (Meaning.RESET, 5), (Meaning.RESET, 5)),
        (said(MATCHED, None, 9), (Meaning.GONE, 9), (Meaning.PASSED_OVER, 9)),
        (said(MATCHED, None, 5), (Meaning.HELD, 5), None),
        (said(MOVED, None, 9), (Meaning.GONE, 9), None),
        (said(MOVED, None, 3), (Meaning.BEYOND_END, 5), None),
        (said(MOVED, None, 5), (Meaning.HELD, 5), None),
        (said(NEW, None, 9), (Meaning.NOTHING_YET, 5), None),
    ],
    ids=lambda value: f"{value.status.name} {value.remark}" if isinstance(value, Pulled) else "",
)
def test_each_answer_has_a_meaning(
    pulled: Pulled, all_wanted: tuple[Meaning, int], some_wanted: tuple[Meaning, int] | None
) -> None:
    assert meaning(pulled) == all_wanted
    assert meaning(pulled, PAID) == (some_wanted or all_wanted)


@pytest.mark.parametrize("status", PullStatus, ids=lambda status: status.name)
def test_an_answer_that_no_known_broker_gives_is_an_error_that_names_it(status: PullStatus) -> None:
    with pytest.raises(answers.UnknownAnswerError) as caught:
        meaning(said(status, "OFFSET_ELSEWHERE", 9))
    assert str(caught.value) == (
        f"orders@broker-a 3 from offset 5: the broker answered code {status.value} with the remark "
        "'OFFSET_ELSEWHERE', a combination that no known RocketMQ version sends; nothing was read"
    )


def test_offsets_that_go_back_are_those_of_another_queue() -> None:
    for pulled in (found(3, 4, 5), found(5, 6, 6), found(5, 6, 5, following=9)):
        with pytest.raises(errors.ProtocolError, match="offset 5: the broker sent"):
            meaning(pulled)


def test_messages_of_an_inner_batch_count_one_by_one() -> None:
    batch = stored.inner_batch(b"a", b"b", b"c", offset=4)
    body = batch + stored.message(offset=7) + stored.message(offset=9)
    answer = answers.read(replace(found(10), body=body), QUEUE, ASKED, EVERYTHING)
    assert (answer.meaning, answer.stop, len(answer.body)) == (
        Meaning.MESSAGES, 8, len(body) - len(stored.message(offset=9)),
    )  # fmt: skip


@pytest.mark.parametrize("broken", [b"\0" * 50, b"abc", stored.message(offset=5)[:30]])
def test_bytes_that_are_no_messages_are_left_to_the_decoder(broken: bytes) -> None:
    assert meaning(replace(found(7), body=broken)) == (Meaning.MESSAGES, 8)


def test_an_inner_batch_that_cannot_be_opened_is_left_to_the_decoder() -> None:
    broken = stored.message(b"none", sys_flag=wire.WRAPPED, offset=5)
    assert meaning(replace(found(7), body=broken)) == (Meaning.MESSAGES, 8)


@pytest.mark.parametrize(
    "pulled",
    [
        said(MATCHED, "MESSAGE_WAS_REMOVING", 7),
        said(NEW, "OFFSET_FOUND_NULL", 7),
        said(MOVED, "OFFSET_TOO_SMALL", 7, least=7),
        found(7, 8),
    ],
    ids=lambda pulled: pulled.remark,
)
def test_what_a_master_says_twice_is_gone(pulled: Pulled) -> None:
    strict = Reading()
    with pytest.raises(OffsetGoneError, match="orders@broker-a 3: offsets 5 to 6 are deleted"):
        strict.next(ROUTE, pulled, pulled)
    assert (strict.position.next, strict.position.gaps) == (5, [])
    lenient = Reading(allow_gaps=True)
    assert lenient.next(ROUTE, pulled, pulled, found(7)) == ([7], ["a:1"] * 3)
    assert lenient.position.gaps == [(5, 7)]


def test_what_could_not_be_read_once_is_read_again() -> None:
    reading = Reading()
    removing = said(MATCHED, "MESSAGE_WAS_REMOVING", 7)
    assert reading.next(ROUTE, removing, found(5, 6, 7))[0] == [5, 6, 7]


def test_a_hole_in_an_answer_is_met_when_the_messages_before_it_were_given() -> None:
    reading = Reading()
    assert reading.next(ROUTE, found(5, 7), found(7))[0] == [5]
    with pytest.raises(OffsetGoneError, match="offsets 6 to 6"):
        reading.next(found(7), found(7))


def test_messages_behind_a_hole_come_once() -> None:
    reading = Reading(allow_gaps=True)
    assert reading.next(ROUTE, found(5, 7), found(7))[0] == [5]
    assert reading.next(found(7), found(7), found(7))[0] == [7]
    assert (reading.position.gaps, reading.position.is_done) == ([(6, 7)], True)


def test_only_a_master_tells_what_is_gone_or_where_the_end_is() -> None:
    for told in (
        said(MOVED, "OFFSET_TOO_SMALL", 7, least=7),
        found(7),
        said(MOVED, "OFFSET_OVERFLOW_BADLY", 3),
        said(MATCHED, "OFFSET_OVERFLOW_BADLY", 5),
        said(MATCHED, "OFFSET_OVERFLOW_ONE", 5),
    ):
        reading = Reading(allow_gaps=True)
        script = [SLAVE, told, SLAVE, told, ROUTE, found(5, 6, 7)]
        assert reading.next(*script) == ([5, 6, 7], ["b:1", "b:1", "a:1"])
        assert reading.position.gaps == []
        with pytest.raises(errors.UnavailableError, match="all retries failed for 11 s"):
            Reading(allow_gaps=True).next(*[SLAVE, told] * 6)


BEYOND = [
    replace(said(MOVED, "OFFSET_OVERFLOW_BADLY", 3), max_offset=3),
    replace(said(MATCHED, "OFFSET_OVERFLOW_BADLY", 5), max_offset=3),
    replace(said(MOVED, "NO_MESSAGE_IN_QUEUE", 0), max_offset=0),
    replace(said(MOVED, "NO_MATCHED_LOGIC_QUEUE", 0), max_offset=0),
]


@pytest.mark.parametrize("told", BEYOND, ids=lambda told: f"{told.status.name} {told.remark}")
def test_offsets_beyond_the_end_that_a_master_tells_are_an_error_at_once(told: Pulled) -> None:
    reading = Reading(allow_gaps=True)
    with pytest.raises(BeyondEndError) as caught:
        reading.next(ROUTE, told, told)
    assert str(caught.value).startswith(
        "orders@broker-a 3: offsets 5 to 8, exclusive, were requested, but the queue ends at "
        f"{told.max_offset}: begin there or before"
    )
    assert (caught.value.asked, caught.value.end) == (5, told.max_offset)
    assert (reading.position.next, reading.position.gaps, reading.stage.seconds) == (5, [], 1)


@pytest.mark.parametrize("told", BEYOND, ids=lambda told: f"{told.status.name} {told.remark}")
def test_messages_beyond_the_end_are_waited_for_where_that_can_help(told: Pulled) -> None:
    assert Reading().next(ROUTE, told, found(5, 6, 7))[0] == [
        5,
        6,
        7,
    ]  # the messages were just sent
    for_ever = Reading()
    for_ever.position.stop = None
    last = replace(found(5), max_offset=6)
    assert for_ever.next(ROUTE, told, ROUTE, told, ROUTE, told, ROUTE, last)[0] == [5]
    behind = Reading()
    script = [SLAVE, told, SLAVE, told, SLAVE, told, ROUTE, found(5, 6, 7)]
    assert behind.next(*script) == ([5, 6, 7], ["b:1", "b:1", "b:1", "a:1"])


def test_a_queue_that_ends_before_what_was_read_of_it_has_lost_messages() -> None:
    reading = Reading(allow_gaps=True)
    reading.position.stop, reading.position.was_read = None, True
    with pytest.raises(BeyondEndError) as caught:
        reading.next(ROUTE, BEYOND[0], BEYOND[0])
    assert str(caught.value) == (
        "orders@broker-a 3 was read up to 5, but ends at 3: either the topic was created again or "
        "the broker lost messages"
    )


@pytest.mark.parametrize("masters", [{1: "b:1"}, {}], ids=["named as a slave", "not named"])
def test_a_slave_that_acts_as_master_does_not_tell_what_is_gone(masters: dict[int, str]) -> None:
    """A name server with supportActingMaster lists the slave as master, with read-only topics."""
    acting = Route("orders", (BrokerRoute("broker-a", "c", {0: "b:1"}, 4, 4, READ),))
    known = BrokerMap({"c": ("broker-a",)}, {"broker-a": masters})
    told = said(MOVED, "OFFSET_TOO_SMALL", 7, least=7)
    reading = Reading(allow_gaps=True)
    assert reading.next(acting, told, known, ROUTE, found(5, 6, 7))[0] == [5, 6, 7]
    assert reading.position.gaps == []


@pytest.mark.parametrize("offset", [0, 3, 9])
def test_a_reset_of_the_groups_offset_changes_nothing(offset: int) -> None:
    reading = Reading()
    reset = said(MOVED, "OFFSET_RESET", offset)
    assert reading.next(ROUTE, reset, ROUTE, found(5, 6, 7))[0] == [5, 6, 7]
    assert reading.position.gaps == []


@pytest.mark.parametrize(
    "pulled",
    [
        said(MATCHED, "NO_MATCHED_MESSAGE", 5),
        said(MATCHED, None, 5),
        said(MOVED, "OFFSET_RESET", 9),
    ],
    ids=lambda pulled: str(pulled.remark),
)
def test_an_answer_that_leads_nowhere_is_asked_for_again_with_pauses_till_patience_ends(
    pulled: Pulled,
) -> None:
    reading = Reading()
    with pytest.raises(errors.UnavailableError, match="from offset 5: all retries failed for 11 s"):
        reading.next(*[ROUTE, pulled] * 6)
    assert reading.stage.seconds == 1 + 2 + 4 + 4


@pytest.mark.parametrize("status", [NEW, MATCHED], ids=lambda status: status.name)
def test_an_end_that_is_told_at_once_is_asked_for_again_with_pauses(status: PullStatus) -> None:
    reading = Reading()
    nothing = said(status, "OFFSET_OVERFLOW_ONE", 5)
    assert reading.next(ROUTE, *[nothing] * 5, found(5, 6, 7))[0] == [5, 6, 7]
    assert reading.stage.seconds == 1 + 2 + 3 * 4


def test_a_store_that_cannot_be_read_now_is_tried_again() -> None:
    pull = Pull("g", "orders", 3, 5, 32, 1 << 20)
    closed = pull.make_refusal(Frame(1, 7, remark="store getMessage return null"), "a:1")
    assert isinstance(closed, errors.BusyError)
    assert not isinstance(pull.make_refusal(Frame(1, 7, remark="other"), "a:1"), errors.BusyError)
    assert Reading().next(ROUTE, closed, ROUTE, found(5, 6, 7))[0] == [5, 6, 7]
