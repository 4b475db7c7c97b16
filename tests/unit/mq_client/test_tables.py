"""Output for people and for programs."""

import json

from mq_client import tables


def test_numbers_stand_right_and_words_left() -> None:
    rows = [
        {"broker": "broker-a", "queue": 10, "key": None},
        {"broker": "b", "queue": 9, "key": "k"},
    ]
    assert tables.to_table(["broker", "queue", "key"], rows).splitlines() == [
        "BROKER    QUEUE  KEY",
        "broker-a     10  -",
        "b             9  k",
    ]


def test_no_rows_are_a_head_alone() -> None:
    assert tables.to_table(["client_id", "address"], []) == "CLIENT ID  ADDRESS"


def test_what_would_command_a_terminal_is_shown_as_dots() -> None:
    assert tables.to_one_line("a\x1b[31m\nb") == "a·[31m·b"


def test_json_says_the_same_to_programs() -> None:
    rows = [{"broker": "a", "lag": 3}]
    assert json.loads(tables.to_json(rows)) == rows
    assert "\n" not in tables.to_json_line(rows[0])
