"""`evenkeel top`: tables of groups, and a map of queues that needs no colours."""

import json
from datetime import UTC, datetime

import pytest
from rich.text import Text

from contract.kinds.groups import PopStore, WaitingSum
from evenkeel_cli.facts import measured, picture
from evenkeel_cli.facts.measured import Measured
from evenkeel_cli.facts.picture import Look
from lb_core.model import Queue
from tests.unit.evenkeel_cli.scenes import (
    JOB,
    after,
    annotated,
    by_message,
    group,
    members,
    running,
)

BEGUN = after(group(job=JOB), running(0, slot_0="1", slot_1="2"))
OF_A_JOB = after(BEGUN, running(slot_0="1", slot_1="2"))
PAGE = """\
# HELP evenkeel_job_rows_total Rows that were pulled
# TYPE evenkeel_job_rows_total counter
evenkeel_job_rows_total{slot="billing-0"} 1000.0
evenkeel_job_rows_total{slot="billing-1"} 50.0
# HELP evenkeel_job_lag_messages Messages behind what is committed
# TYPE evenkeel_job_lag_messages gauge
evenkeel_job_lag_messages{broker="broker-a",queue="0",topic="orders"} 0.0
evenkeel_job_lag_messages{broker="broker-a",queue="1",topic="orders"} 9.0
evenkeel_job_lag_messages{broker="broker-a",queue="2",topic="orders"} 10.0
evenkeel_job_lag_messages{broker="broker-a",queue="3",topic="orders"} 123456.0
evenkeel_job_lag_messages{broker="broker-b",queue="0",topic="orders"} NaN
evenkeel_other{slot="x"} 1.0
"""


LANES = """\
# TYPE evenkeel_job_lane_batch_seconds gauge
evenkeel_job_lane_batch_seconds{lane="0"} 0.0
evenkeel_job_lane_batch_seconds{lane="1"} 3.25
# TYPE evenkeel_job_lane_batch gauge
evenkeel_job_lane_batch{lane="1"} 42.0
# TYPE evenkeel_job_lane_batch_offsets gauge
evenkeel_job_lane_batch_offsets{lane="0"} 0.0
evenkeel_job_lane_batch_offsets{lane="1"} 700.0
# TYPE evenkeel_job_lane_left_out gauge
evenkeel_job_lane_left_out{broker="broker-b",lane="1"} 1.0
"""


NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)


def plain(lines: list[Text]) -> list[str]:
    return [line.plain for line in lines]


def draw_one(look: Look) -> list[str]:
    return plain(picture.draw_one(look, NOW))


def test_a_job_is_drawn_with_lags_rates_and_a_map_of_its_queues() -> None:
    first = measured.parse(PAGE, 10.0)
    later = measured.parse(PAGE.replace("1000.0", "1501.0"), 12.0)
    look = Look(OF_A_JOB, later, measured.compute_rates(first, later))
    assert draw_one(look) == [
        "billing  epoch 1  8 queues  2 consumers  moved 0  lag 123475  ready True  Running",
        "CONSUMER   EXECUTOR  POD             STATE  QUEUES     LAG  ROWS/S  MAP",
        "billing-0  1         billing-exec-1  reads       4  123475     250  "
        "orders@broker-a 0-3 ·126",
        "billing-1  2         billing-exec-2  reads       4       -       0  "
        "orders@broker-b 0-3 ????",
        picture.LEGEND,
    ]


def test_each_lane_of_a_job_with_batches_is_drawn() -> None:
    look = Look(OF_A_JOB, measured.parse(PAGE + LANES, 10.0))
    assert draw_one(look)[-3:] == [
        "LANE  BATCH  RUNNING  OFFSETS  LEFT OUT",
        "   0      -  -              -  -",
        "   1     42  3.2 s        700  broker-b",
    ]
    assert picture.describe(look)["lanes"] == [
        {"lane": 0, "batch": None, "seconds": 0.0, "offsets": 0, "leftOut": []},
        {"lane": 1, "batch": 42, "seconds": 3.2, "offsets": 700, "leftOut": ["broker-b"]},
    ]


@pytest.mark.parametrize(
    ("lag", "sign", "style"),
    [
        (None, "?", "dim"),
        (-1, "·", "dim"),
        (0, "·", "dim"),
        (1, "1", "green"),
        (99, "2", "green"),
        (100, "3", "yellow"),
        (9999, "4", "yellow"),
        (10_000, "5", "red"),
        (10**20, "9", "red"),
    ],
)
def test_the_sign_of_a_queue_counts_the_digits_of_its_lag(
    lag: int | None, sign: str, style: str
) -> None:
    assert picture.draw_lag(lag) == (sign, style)


def test_without_measures_it_says_why_and_shows_what_the_status_knows() -> None:
    found = after(annotated(group(), drain="a"), members("a", "b"))
    lines = draw_one(Look(found, trouble="nobody tells"))
    assert lines == [
        "billing  epoch 1  8 queues  2 consumers  moved 0  lag -  ready True  Assigned",
        "CONSUMER  STATE     QUEUES  MAP",
        "a         draining       0  none",
        "b         reads          8  orders@broker-a 0-3 orders@broker-b 0-3",
        "nobody tells",
    ]


def test_slots_that_are_empty_show_as_such() -> None:
    lost = after(OF_A_JOB, running(slot_0="1"))
    assert "billing-1  2         billing-exec-2  empty" in draw_one(Look(lost))[3]


def test_a_group_by_message_shows_its_members_and_what_waits() -> None:
    stores = {"broker-a": PopStore.ROCKSDB}
    waiting = WaitingSum(4, 0, 1, oldest="2026-09-01T11:57:00Z")
    found = by_message("a", "b", lag=4, waiting=waiting, dead_letters=2, stores=stores)
    lines = draw_one(Look(found))
    assert lines == [
        "billing  8 queues  2 consumers  lag 4  ready True  Assigned",
        "CONSUMER",
        "a",
        "b",
        "waiting at the brokers: 4 ready messages, 0 retries, 1 pop; the oldest message for 3 min",
        "2 dead letters in %DLQ%billing",
    ]
    facts = json.loads(json.dumps(picture.describe(Look(found))))
    assert facts["waiting"] == {"ready": 4, "retries": 0, "parked": 1, "oldest": waiting.oldest}
    assert facts["deadLetters"] == 2
    assert facts["stores"] == {"broker-a": "RocksDB"}
    assert picture.describe_group(group())["waiting"] is None


def test_zones_are_shown_where_there_are_any() -> None:
    found = after(group(), members("a", "b", zones={"a": "z1"}))
    assert draw_one(Look(found))[1:3] == [
        "CONSUMER  ZONE  STATE  QUEUES  MAP",
        "a         z1    reads       4  orders@broker-a 0-3",
    ]


def test_all_groups_have_a_line_each() -> None:
    groups = [OF_A_JOB, group()]
    assert plain(picture.draw_all(groups, everywhere=True)) == [
        "NAMESPACE  GROUP    QUEUES  CONSUMERS  EPOCH  MOVED  IMBALANCE  LAG  READY    WHY",
        "default    billing       8          2      1      0  1.00       -    True     Running",
        "default    billing       0          0      0      0  -          -    Unknown  "
        "no operator has reconciled it",
    ]
    assert plain(picture.draw_all(groups, everywhere=False))[0].startswith("GROUP    QUEUES")


def test_a_driver_that_counts_anew_has_no_rate_until_the_next_look() -> None:
    before, after_it = Measured(1.0, rows={"a": 100.0}), Measured(3.0, rows={"a": 10.0, "b": 4.0})
    assert measured.compute_rates(before, after_it) == {"b": 2.0}
    assert measured.compute_rates(before, before) == {}


def test_names_that_would_command_a_terminal_are_shown_as_dots() -> None:
    found = after(group(consumers={"static": [{"id": "a\x1b[31m"}]}), None)
    assert "a·[31m" in draw_one(Look(found))[2]


def test_programs_get_the_lag_of_each_queue() -> None:
    facts = json.loads(json.dumps(picture.describe(Look(OF_A_JOB, measured.parse(PAGE, 1.0)))))
    assert facts["lag"] == 123475
    assert facts["assignments"][0]["queues"] == [
        {"topic": "orders", "broker": "broker-a", "ids": "0-3", "lags": [0, 9, 10, 123456]}
    ]
    assert measured.parse(PAGE, 1.0).lags[Queue("orders", "broker-a", 1)] == 9
