"""Handles of popped messages, and what a pop's answer says about its messages."""

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq_client import errors, filters, popping
from mq_client.commands.base import read_answer
from mq_client.commands.offsets import GetLag
from mq_client.commands.popping import Ack, BatchAck, ChangeInvisible, Notification, Pop
from mq_client.flows import AskAll
from mq_client.frames import Frame
from mq_client.operations import popping as operations
from mq_client.popping import ORDERED, PopHandle, Popped, PopSource, Waiting
from mq_client.values import BrokerRoute, Lag, MessageQueue, Route
from tests import stored
from tests.scripted import Stage

HANDLE = PopHandle(7, 1_790_000_000_000, 30_000, 2, PopSource.TOPIC, "broker-a", 3, 9)
NUMBERS = st.integers(0, 2**63 - 1)


@st.composite
def make_handles(draw: st.DrawFn) -> PopHandle:
    start = draw(NUMBERS)
    return PopHandle(
        start, draw(NUMBERS), draw(NUMBERS), draw(NUMBERS), draw(st.sampled_from(PopSource)),
        draw(st.text("abcABC123_-%|", min_size=1)), draw(NUMBERS), start + draw(st.integers(0, 32)),
    )  # fmt: skip


@given(make_handles())
def test_a_handle_is_read_as_it_was_written(handle: PopHandle) -> None:
    assert popping.parse_handle(str(handle)) == handle


@pytest.mark.parametrize(
    "text", ["", "7 1 2 3 0 broker-a 3", f"{HANDLE} 1", "x 1 2 3 0 a 3 7", "7 1 2 3 9 a 3 7",
             "7 1 2 3 0  3 7", "-7 1 2 3 0 a 3 7", "7 1_0 2 3 0 a 3 7", "7 1 2 3 0 a 3 6",
             f"7 1 2 3 0 a 3 {2**62}"]
)  # fmt: skip
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(errors.UsageError, match="is not the handle of a popped message"):
        popping.parse_handle(text)


@given(st.text())
def test_any_text_is_a_handle_or_refused(text: str) -> None:
    try:
        popping.parse_handle(text)
    except errors.UsageError:
        return


def test_an_ack_names_the_topic_that_has_the_message() -> None:
    topics = [
        Ack("g", "orders", HANDLE._replace(source=source)).list_fields()["topic"]
        for source in PopSource
    ]
    assert topics == ["orders", "%RETRY%g_orders", "%RETRY%g+orders"]


def test_a_batch_of_acks_has_an_entry_for_each_pop_of_each_queue() -> None:
    other = HANDLE._replace(queue_id=4, start=0)
    handles = [HANDLE._replace(offset=at) for at in (7, 9, 9, 20)] + [other._replace(offset=0)]
    body = json.loads(BatchAck("g", "orders", tuple(handles)).encode_body())
    assert body["brokerName"] == "broker-a"
    found = {entry["q"]: (entry["so"], base64.b64decode(entry["b"])) for entry in body["acks"]}
    assert found == {3: (7, bytes([0b101, 0b100000])), 4: (0, b"\x01")}


def test_a_changed_handle_counts_from_its_message_on() -> None:
    fields = {"popTime": "1790000005000", "invisibleTime": "60000", "reviveQid": "5"}
    changed = ChangeInvisible("g", "orders", HANDLE, 60_000).read(Frame(0, 1, fields=fields))
    assert str(changed) == "9 1790000005000 60000 5 0 broker-a 3 9"
    assert changed.visible_at_ms == 1_790_000_065_000


FOUND = {
    "popTime": "1790000000000", "invisibleTime": "30000", "reviveQid": "2", "restNum": "0",
    "startOffsetInfo": "0 3 7;1 0 4", "msgOffsetInfo": "0 3 7,8;1 0 4",
}  # fmt: skip


def pop(body: bytes, **changed: str) -> Popped:
    frame = Frame(0, 1, fields=FOUND | changed, body=body)
    return read_answer(Pop("g", "orders", 32, 30_000, 0), frame, "a:1")


def test_messages_get_the_handle_of_their_queue_and_retries_get_their_topic_back() -> None:
    body = stored.message(topic="orders", queue_id=3, offset=8) + stored.message(
        topic="%RETRY%g_orders", queue_id=0, offset=4, reconsume_times=2
    )
    first, again = pop(body).to_messages("g", "orders", "broker-a")
    assert str(first.handle) == "7 1790000000000 30000 2 0 broker-a 3 8"
    assert str(again.handle) == "4 1790000000000 30000 2 1 broker-a 0 4"
    assert [(each.message.topic, each.attempt) for each in (first, again)] == [
        ("orders", 0), ("orders", 2),
    ]  # fmt: skip


def test_a_handle_in_the_message_comes_first() -> None:
    """A broker with the file store gives retries their topic back, and adds the handle."""
    given_by_broker = "4 1790000000000 30000 2 1 broker-a 0 4"
    body = stored.message(topic="orders", queue_id=0, offset=4, texts={"POP_CK": given_by_broker})
    [again] = pop(body).to_messages("g", "orders", "broker-a")
    assert str(again.handle) == given_by_broker


@pytest.mark.parametrize(
    ("counts", "attempt"), [("", 0), ("0 3 5", 5), ("0 3 5;0 qo3%8 6", 6), ("0 qo3%9 6", 0)]
)
def test_of_an_ordered_pop_the_broker_counts_the_attempts(counts: str, attempt: int) -> None:
    body = stored.message(topic="orders", queue_id=3, offset=8, reconsume_times=1)
    found = pop(body, reviveQid=str(ORDERED), orderCountInfo=counts)
    assert [each.attempt for each in found.to_messages("g", "orders", "broker-a")] == [attempt]


@pytest.mark.parametrize(
    ("body", "changed", "complaint"),
    [
        (stored.message(topic="bills"), {}, "a message of 'bills'"),
        (stored.message(topic="orders", queue_id=9), {}, "where it began in queue 9"),
        (b"", {"startOffsetInfo": "0 3"}, "'0 3' is not source, queue and number"),
        (b"", {"startOffsetInfo": "7 3 1"}, "'7 3 1' is not source"),
        (b"", {"popTime": "soon"}, "popTime is 'soon'"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(
    body: bytes, changed: dict[str, str], complaint: str
) -> None:
    with pytest.raises(errors.ProtocolError, match=complaint):
        pop(body, **changed).to_messages("g", "orders", "broker-a")


@pytest.mark.parametrize(
    ("code", "remark", "kind"),
    [
        (209, "too many", errors.BusyError),
        (26, "no group", errors.GroupUnknownError),
        (17, "no topic", errors.TopicUnknownError),
        (16, "not allowed", errors.NotPermittedError),
        (1, "pop message is forbidden because timerWheelEnable is false", errors.PopsOffError),
        (1, "store failed", errors.UnexpectedError),
    ],
)
def test_each_refusal_of_a_pop_is_typed(
    code: int, remark: str, kind: type[errors.AnswerError]
) -> None:
    with pytest.raises(errors.AnswerError) as caught:
        read_answer(Pop("g", "orders", 32, 30_000, 0), Frame(code, 1, remark=remark), "a:1")
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "given_by_producer",
    ["x", "4 1 2 3 1 broker-a 0 4", "7 1 2 3 2 broker-a 3 8", "7 1 2 3 0 b 3 8"],
)
def test_a_property_that_does_not_fit_is_not_the_handle(given_by_producer: str) -> None:
    body = stored.message(topic="orders", queue_id=3, offset=8, texts={"POP_CK": given_by_producer})
    [found] = pop(body).to_messages("g", "orders", "broker-a")
    assert str(found.handle) == "7 1790000000000 30000 2 0 broker-a 3 8"


def test_a_message_that_cannot_be_read_has_its_handle_and_holds_up_no_other() -> None:
    body = stored.message(topic="orders", queue_id=3, offset=7, crc=1) + stored.message(
        b"fine", topic="orders", queue_id=3, offset=8
    )
    fine, broken = pop(body).to_messages("g", "orders", "broker-a")
    assert (fine.message.body, fine.error) == (b"fine", "")
    assert "checksum" in broken.error
    assert str(broken.handle) == "7 1790000000000 30000 2 0 broker-a 3 7"


def test_too_many_waiting_requests_are_no_answer() -> None:
    answer = Frame(0, 1, fields={"hasMsg": "false", "pollingFull": "true"})
    with pytest.raises(errors.BusyError):
        read_answer(Notification("g", "orders", 100), answer, "a:1")


HERE = Route(
    "orders",
    (
        BrokerRoute("broker-a", "c", {0: "a:1", 1: "a:2"}, 1, 1, 6),
        BrokerRoute("broker-b", "c", {1: "b:2"}, 1, 1, 6),
    ),
)
TWO_MASTERS = Route(
    "orders",
    (
        BrokerRoute("broker-a", "c", {0: "a:1"}, 1, 1, 6),
        BrokerRoute("broker-b", "c", {0: "b:1"}, 1, 1, 6),
    ),
)
MOVED = Route("orders", (BrokerRoute("broker-a", "c", {0: "a:3"}, 1, 1, 6),))
LOST = errors.ConnectionLostError("reset")


def test_a_broker_without_a_master_keeps_no_ack_from_the_others() -> None:
    here = Stage()
    handles = [HANDLE, HANDLE._replace(broker="broker-b")]
    flow = operations.acknowledge(here.directory, "g", "orders", handles)
    next(flow)
    step = flow.send(HERE)
    assert isinstance(step, AskAll)
    assert [each.address for each in step.asks] == ["a:1"]
    flow.send([None])
    with pytest.raises(errors.NoBrokerError, match="'broker-b' has no master"):
        flow.send(HERE)


def test_an_ack_is_tried_again_where_the_master_is_now() -> None:
    here = Stage()
    flow = operations.acknowledge(here.directory, "g", "orders", [HANDLE])
    _, asked, _ = here.play(flow, [HERE, LOST, MOVED, None])
    assert asked == ["ns:1", "a:1", "ns:1", "a:3"]


def test_messages_whose_tags_only_hash_alike_are_acknowledged_and_not_returned() -> None:
    body = stored.message(topic="orders", queue_id=3, offset=7, texts={"TAGS": "Aa"})
    body += stored.message(topic="orders", queue_id=3, offset=8, texts={"TAGS": "BB"})
    here = Stage()
    flow = operations.pop(
        here.directory, "g", "orders", "broker-a", wanted=filters.match_tags("Aa")
    )
    found, asked, _ = here.play(flow, [HERE, pop(body), None])
    assert [each.message.queue_offset for each in found] == [7]
    assert asked == ["ns:1", "a:1", "a:1"]


def test_what_waits_is_what_nobody_got_yet_and_retries_are_counted_apart() -> None:
    at = MessageQueue("orders", "broker-a", 0)
    popped = Lag(at, 100, 60, 0, pull_offset=90)  # a broker with RocksDB commits later
    committed = Lag(at, 50, 47, 0, pull_offset=-1)
    behind = Lag(at, 5, 9, 0, pull_offset=3)
    assert [each.ready for each in (popped, committed, behind)] == [10, 3, 0]
    flow = operations.count_waiting(Stage().directory, "g", "orders")
    next(flow)
    step = flow.send(TWO_MASTERS)
    lags = {"orders": ([popped, committed], [committed]), "%RETRY%g_orders": ([], [committed]),
            "%RETRY%g+orders": ([committed], [])}  # fmt: skip
    while isinstance(step, AskAll) and isinstance(step.asks[0].request, GetLag):
        assert [each.address for each in step.asks] == ["a:1", "b:1"]
        step = flow.send([*lags.pop(step.asks[0].request.topic)])
    assert not lags
    refused = errors.NotPermittedError("POLLING_INFO", "b:1", 16, "paused")
    with pytest.raises(StopIteration) as stop:
        flow.send([4, refused])
    assert stop.value.value == {
        "broker-a": Waiting(ready=13, retries=3, parked=4),
        "broker-b": Waiting(ready=3, retries=3, parked=0),
    }


def test_the_next_offset_of_a_group_is_read_from_its_lag() -> None:
    key = '{"brokerName":"broker-a","queueId":0,"topic":"orders"}'
    offsets = '{"brokerOffset":9,"consumerOffset":4,"lastTimestamp":1%s}'
    lags = []
    for more in ("", ',"pullOffset":7'):
        body = f'{{"offsetTable":{{{key}:{offsets % more}}}}}'.encode()
        (lag,) = read_answer(GetLag("g", "orders"), Frame(0, 1, body=body), "a:1")
        lags.append((lag.pull_offset, lag.ready))
    assert lags == [(-1, 5), (7, 2)]


def test_nothing_in_time_is_no_messages() -> None:
    found = read_answer(Pop("g", "orders", 32, 30_000, 0), Frame(210, 1), "a:1")
    assert found == Popped()
    assert found.to_messages("g", "orders", "broker-a") == []


@pytest.mark.parametrize("code", [13, 208])
def test_a_handle_that_fits_no_message_is_an_error_of_its_own(code: int) -> None:
    for request in (Ack("g", "orders", HANDLE), ChangeInvisible("g", "orders", HANDLE, 5)):
        with pytest.raises(errors.HandleError, match="newest handle"):
            read_answer(request, Frame(code, 1, remark="no"), "a:1")


def test_ordered_handles_are_known_by_their_revive_queue() -> None:
    assert (HANDLE.is_ordered, HANDLE._replace(revive_queue=ORDERED).is_ordered) == (False, True)
    assert replace(Popped(), revive_queue=3) != Popped()
