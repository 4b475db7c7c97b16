"""The checker of random histories: what it must report, and what it must accept."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.histories import checker, story
from tests.histories.checker import End, Given, Row, Stored, World
from tests.histories.story import Event, Kind, Read


def world(count: int = 10, broken: int | None = None, **facts: Any) -> World:
    """Ten messages, at the positions 0, 100, 200 and so on; the even ones are red."""
    stored = [
        Stored(
            f"k{n}", "blue" if n % 2 else "red", Kind.BROKEN if n == broken else Kind.PLAIN, 100 * n
        )
        for n in range(count)
    ]
    return World(stored, **facts)


def given(*offsets: int, **what: Any) -> Given:
    rows = [Row(offset, f"k{offset}") for offset in offsets]
    return Given(
        **{
            "start": 0,
            "stop": 10,
            "allow_gaps": False,
            "tags": None,
            "rows": rows,
            "next": 10,
            **what,
        }
    )


ALL = range(10)
RIGHT: list[tuple[World, Given]] = [
    (world(), given(*ALL)),
    (world(), given(0, 2, 4, 6, 8, tags="red")),
    (world(deleted_below=300), given(*range(3, 10), gaps=[(0, 3)], allow_gaps=True)),
    (world(deleted_below=300), given(*ALL)),
    (world(deleted_below=300), given(next=0, end=End.GONE)),
    (world(is_readable=False), given(next=0, end=End.FORBIDDEN)),
    (world(has_master=False, slave_end=4), given(*range(4), next=4, end=End.WAITS)),
    (world(has_master=False, slave_end=4), given(*range(4), next=4, end=End.UNAVAILABLE)),
    (world(has_master=False, deleted_below=300), given(next=0, end=End.UNAVAILABLE)),
    (world(broken=5), given(*range(4), *range(8, 10), refused=[(4, 8)])),
    (world(broken=5), given(*range(4), next=4, end=End.BROKEN)),
    (world(2), given(start=5, stop=6, next=5, end=End.WAITS)),
    (world(2), given(start=5, stop=6, next=5, end=End.BEYOND)),
]
WRONG: list[tuple[World, Given, str]] = [
    (world(), given(*range(9)), "offsets 9 did not come, and the reader"),
    (world(deleted_below=300), given(*range(3, 10)), "offsets 0, 1, 2 did not come, and"),
    (world(), given(0, 1, 1, *range(2, 10)), "offset 1 came after 1"),
    (world(), given(1, 0, *range(2, 10)), "offset 0 came after 1"),
    (world(), given(*ALL, tags="red"), "though the filter leaves out blue"),
    (world(), given(*ALL, next=8), "offset 9 came, but only 0 up to 8 was read"),
    (world(), given(*range(8), next=8), "it said that all was read, at 8 of 10"),
    (world(), given(*range(3, 10), gaps=[(0, 3)], allow_gaps=True), "but exist"),
    (world(deleted_below=300), given(*range(3, 10), gaps=[(0, 3)]), "not allowed"),
    (world(deleted_below=300), given(*ALL, gaps=[(0, 3)], allow_gaps=True), "in a reported gap"),
    (world(deleted_below=300), given(0, next=0, end=End.GONE, allow_gaps=True), "called deleted"),
    (world(), given(next=0, end=End.GONE), "called deleted, and is not"),
    (world(), given(next=0, end=End.FORBIDDEN), "may be read"),
    (world(2), given(start=2, stop=3, next=2, end=End.BEYOND), "not beyond the end"),
    (world(2, has_master=False), given(start=5, stop=6, next=5, end=End.BEYOND), "no master"),
    (world(), given(*range(4), next=4, end=End.WAITS), "no message is missing"),
    (world(has_master=False), given(*range(4), next=4, end=End.WAITS), "no message is missing"),
    (world(slave_end=4), given(*range(4), next=4, end=End.UNAVAILABLE), "no message is missing"),
    (world(), given(*range(4), *range(8, 10), refused=[(4, 8)]), "were called broken"),
    (world(), given(next=0, end=End.BROKEN), "nothing is broken"),
    (world(), given(next=0, end=End.OTHER, words="KeyError"), "failed at 0: KeyError"),
    (world(), given(*ALL, pulls=200, seconds=1.0), "it does not pause"),
    (World([Stored("other", "red", Kind.PLAIN, 0)]), given(0, stop=1, next=1), "came as k0"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "read"), RIGHT)
def test_what_has_a_reason_is_no_complaint(facts: World, read: Given) -> None:
    assert checker.complaints(facts, read) == []


@pytest.mark.parametrize(("facts", "read", "words"), WRONG)
def test_what_has_no_reason_is_one(facts: World, read: Given, words: str) -> None:
    assert words in "; ".join(checker.complaints(facts, read))


def test_a_seed_makes_one_history_and_each_event_is_in_some() -> None:
    assert story.make(7) == story.make(7)
    histories = [story.make(seed) for seed in range(200)]
    assert {step for steps in histories for step in steps if isinstance(step, Event)} == set(Event)
    kinds: list[Callable[[Any], bool]] = [
        lambda step, kind=kind: isinstance(step, kind)  # type: ignore[misc]
        for kind in (story.Send, story.Delete, story.Reset)
    ]
    assert all(any(is_it(step) for steps in histories for step in steps) for is_it in kinds)
    assert {
        step.kind for steps in histories for step in steps if isinstance(step, story.Send)
    } == set(Kind)
    assert all(steps[-1] == Read(False, again=True) for steps in histories)
