"""What a follower writes to brokers, and when it must not write."""

import pytest

from follower.brokers import guard, make_letter
from follower.work import OverError, Work
from mq_client import errors
from mq_client.flows import Flow, Pause
from mq_client.messages import StoredMessage
from mq_client.values import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 0)
STORED = StoredMessage("orders", "broker-a", 0, 7, b"body", {}, 3, 0, 0, b"", 0, b"", 0, 0, 0)


def two_steps() -> Flow[str]:
    try:
        yield Pause(1.0)
    except errors.DeadlineError:
        yield Pause(2.0)
    return "done"


def test_a_flow_goes_on_through_failures_while_the_queue_is_held() -> None:
    flow = guard(Work(QUEUE, 1, "billing", lambda: True), two_steps())
    assert next(flow) == Pause(1.0)
    assert flow.throw(errors.DeadlineError("late")) == Pause(2.0)
    with pytest.raises(StopIteration) as ended:
        flow.send(None)
    assert ended.value.value == "done"


def test_no_further_request_is_sent_once_the_holding_is_over() -> None:
    work = Work(QUEUE, 1, "billing", lambda: True)
    flow = guard(work, two_steps())
    next(flow)
    work.is_over = True
    with pytest.raises(OverError):
        flow.throw(errors.DeadlineError("late"))


def test_a_dead_letter_keeps_what_people_look_for_and_says_where_it_comes_from() -> None:
    properties = {
        "TAGS": "paid",
        "KEYS": "o-17 o-18",
        "DELAY": "3",
        "amount": "7",
        "UNIQ_KEY": "id",
    }
    letter = make_letter("dead", STORED._replace(properties=properties))
    assert (letter.topic, letter.body, letter.flag) == ("dead", b"body", 3)
    assert (letter.tags, letter.keys, letter.delay_level) == ("paid", ("o-17", "o-18"), None)
    assert letter.properties == {
        "amount": "7",
        "UNIQ_KEY": "id",
        "DLQ_ORIGIN_TOPIC": "orders",
        "DLQ_ORIGIN_MESSAGE_ID": "id",
    }
