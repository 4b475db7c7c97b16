"""
Defines sizes, events, and the scripts that every program plays.

A script is lines of text, so that each peer is measured in its own language, and all peers share
one definition. Topic `topic-000` comes first, every topic has one broker, and members are sorted.

    limits W R D        warm up for W seconds, take R runs, stop a run after D seconds
    topics 100,100      set how many queues each topic has
    members a,b,c       set the members
    join a / leave a    add or remove one member
    forget              drop the previous plan
    plan                plan, and make the result the previous plan; not timed
    time LABEL          plan again and again from the same previous plan; print one JSON line
    keep                make the result of the last `time` the previous plan
    memory              print the highest use of memory so far; for planners in Python
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

FULL, STABLE, JOIN_ONE = "FULL", "STABLE", "JOIN_ONE"
LEAVE_ONE, QUEUES_ADDED = "LEAVE_ONE", "QUEUES_ADDED"
EVENTS = (FULL, STABLE, JOIN_ONE, LEAVE_ONE, QUEUES_ADDED)
FRAGMENTED = "fragmented "
"""The prefix of events whose previous plan is the result of many joins and leaves."""
CHURN = 1_000
"""The number of these joins and leaves."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a group. Its queues are spread evenly over its topics."""

    consumers: int
    queues: int
    topics: int

    def __str__(self) -> str:
        """Name the size as in the tables."""
        return f"{self.consumers:,} x {self.queues:,} x {self.topics}"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to measure. Peers on a JVM need the warm-up."""

    warm_up_seconds: float = 1.5
    runs: int = 7
    deadline_seconds: float = 20


SMALL = Size(100, 1_000, 10)
MIDDLE = Size(1_000, 10_000, 10)
LARGE = Size(1_000, 100_000, 10)
MANY_TOPICS = Size(1_000, 100_000, 100)
HUGE = Size(10_000, 500_000, 10)
SIZES = (SMALL, MIDDLE, LARGE, MANY_TOPICS, HUGE)


def fresh(size: Size, limits: Limits, *, rehearse: bool = False) -> Iterator[str]:
    """Time all events. With `rehearse`, time them twice; the caller keeps the last results."""
    yield from _start(size, limits)
    for _ in range(1 + rehearse):
        yield "forget"
        yield f"time {FULL}"
        yield "keep"
        yield from _play_events(size, list_ids(size), label="")


def play_fragmented(size: Size, limits: Limits, *, rehearse: bool = False) -> Iterator[str]:
    """Plan after each of many joins and leaves; then time the events."""
    yield from _start(size, limits)
    yield "plan"
    members = list_ids(size)
    for step in churn(size, members):
        yield step
        yield "plan"
    for _ in range(1 + rehearse):
        yield from _play_events(size, members, FRAGMENTED)


def memory(size: Size, limits: Limits) -> Iterator[str]:
    """Plan from nothing, then with one more member, and measure the memory."""
    yield from _start(size, limits)
    yield "plan"
    yield f"join {_joiner(size)}"
    yield "plan"
    yield "memory"


def list_ids(size: Size) -> list[str]:
    """List the members with which a group of this size starts."""
    return [f"c-{number:05d}" for number in range(size.consumers)]


def topic_name(index: int) -> str:
    """Name a topic as every program does."""
    return f"topic-{index:03d}"


def churn(size: Size, members: list[str]) -> Iterator[str]:
    """Yield random but reproducible joins and leaves, and update `members`."""
    source = random.Random(size.consumers)
    for step in range(CHURN):
        missing = size.consumers - len(members)
        if missing > 0 or (missing == 0 and source.random() < 0.5):
            members.append(f"c-{source.randrange(size.consumers):05d}-{step}")
            yield f"join {members[-1]}"
        else:
            yield f"leave {members.pop(source.randrange(len(members)))}"
    members.sort()


def _start(size: Size, limits: Limits) -> Iterator[str]:
    yield f"limits {limits.warm_up_seconds} {limits.runs} {limits.deadline_seconds}"
    yield _format_topics(size)
    yield f"members {','.join(list_ids(size))}"


def _play_events(size: Size, members: list[str], label: str) -> Iterator[str]:
    """Play all events except FULL. Afterwards the group is unchanged."""
    leaver = members[size.consumers // 2]
    yield f"time {label}{STABLE}"
    yield f"join {_joiner(size)}"
    yield f"time {label}{JOIN_ONE}"
    yield f"leave {_joiner(size)}"
    yield f"leave {leaver}"
    yield f"time {label}{LEAVE_ONE}"
    yield f"join {leaver}"
    yield _format_topics(size, added=size.queues // size.topics // 10)
    yield f"time {label}{QUEUES_ADDED}"
    yield _format_topics(size)


def _joiner(size: Size) -> str:
    return f"c-{size.consumers // 2:05d}-j"


def _format_topics(size: Size, added: int = 0) -> str:
    """Format the number of queues of each topic. The first topic's includes the added queues."""
    each = size.queues // size.topics
    return f"topics {','.join(map(str, [each + added] + [each] * (size.topics - 1)))}"
