"""
Draws a story from a seed: faults and changes, each with its time. Any event can be left out.

A story that fails is shortened: events are left out, one by one, as long as it still fails.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from contract.kinds.groups import OnOutage

TROUBLE_SECONDS = 90.0
"""Events happen until this time. After it, nothing is lost, late or stopped."""


@dataclass(frozen=True)
class Publish:
    """An assignment is published, and reaches the leader after a while."""

    at: float
    owners: dict[int, int]
    delay: float


@dataclass(frozen=True)
class Freeze:
    """A process is frozen for a while, and then thawed."""

    at: float
    member: int
    seconds: float


@dataclass(frozen=True)
class Kill:
    """A process ends, and another one gets its name. The kubelet may report the end."""

    at: float
    member: int
    restart: float
    told: float | None


@dataclass(frozen=True)
class Leave:
    """A process announces that it leaves, and ends; another one gets its name later."""

    at: float
    member: int
    restart: float


@dataclass(frozen=True)
class Stop:
    """A process finishes what it has begun, leaves and ends; another takes its name later."""

    at: float
    member: int
    restart: float


@dataclass(frozen=True)
class CutOff:
    """Nothing passes between a member and the leader."""

    at: float
    member: int
    seconds: float


@dataclass(frozen=True)
class ChangeLeader:
    """The leader loses its lead; the next one begins after a while, with a new clock."""

    at: float
    gap: float


@dataclass(frozen=True)
class Weather:
    """How bad the network is for a while."""

    at: float
    seconds: float
    loss: float
    twice: float
    slow: float


Event = Publish | Freeze | Kill | Leave | Stop | CutOff | ChangeLeader | Weather


@dataclass(frozen=True)
class Story:
    """A story: all its events, and the network's state."""

    seed: int
    members: int
    queues: int
    events: tuple[Event, ...] = field(default=())
    on_outage: OnOutage = OnOutage.STOP

    @property
    def only_leaders_change(self) -> bool:
        """Whether every process lives, runs and is connected all the time."""
        return all(isinstance(each, Publish | ChangeLeader) for each in self.events)

    def without(self, number: int) -> "Story":
        return replace(self, events=self.events[:number] + self.events[number + 1 :])

    def __str__(self) -> str:
        sizes = f"{self.members} members, {self.queues} queues"
        lines = [f"seed {self.seed}: {sizes}, {self.on_outage.value}"]
        return "\n  ".join([*lines, *map(str, self.events)])


def draw(seed: int) -> Story:
    """Draw a story."""
    rng = random.Random(seed)
    members, queues = rng.randint(2, 5), rng.randint(1, 8)
    first = Publish(0.0, _spread(rng, members, queues), 0.0)
    events = [_draw_event(rng, members, queues) for _ in range(rng.randint(0, 14))]
    if rng.random() < 0.1:
        events = [each for each in events if isinstance(each, Publish | ChangeLeader)]
    events.sort(key=lambda each: each.at)
    on_outage = rng.choice([OnOutage.STOP, OnOutage.STOP, OnOutage.KEEP_READING])
    return Story(seed, members, queues, (first, *events), on_outage)


def _draw_event(rng: random.Random, members: int, queues: int) -> Event:
    at, member = rng.uniform(0, TROUBLE_SECONDS), rng.randrange(members)
    match rng.randrange(10):
        case 0 | 1 | 2:
            return Publish(at, _spread(rng, members, queues), rng.choice([0.0, rng.uniform(0, 8)]))
        case 3:
            return Freeze(at, member, rng.uniform(0.1, 40))
        case 4:
            told = rng.choice([None, rng.uniform(0, 3)])
            return Kill(at, member, rng.uniform(0.1, 20), told)
        case 5:
            return Leave(at, member, rng.uniform(0.1, 20))
        case 6:
            return CutOff(at, member, rng.uniform(0.1, 40))
        case 7:
            gap = rng.choice([rng.uniform(0, 15), rng.uniform(15, 60)])
            return ChangeLeader(at, min(gap, TROUBLE_SECONDS + 15 - at))
        case 8:
            return Stop(at, member, rng.uniform(0.1, 20))
        case _:
            loss, twice = rng.choice([0.0, rng.random() / 2]), rng.choice([0.0, rng.random() / 2])
            return Weather(at, rng.uniform(1, 30), loss, twice, rng.choice([0.05, 1.0, 12.0]))


def _spread(rng: random.Random, members: int, queues: int) -> dict[int, int]:
    """Draw an assignment. Not every queue has an owner, and not every member has queues."""
    return {queue: rng.randrange(members) for queue in range(queues) if rng.random() < 0.95}


def shorten(story: Story, fails: Callable[[Story], bool]) -> Story:
    """Leave out every event without which the story still fails."""
    number = 0
    while number < len(story.events):
        shorter = story.without(number)
        if fails(shorter):
            story = shorter
        else:
            number += 1
    return story
