"""
Generates the tables of docs/strategies.md: how many queues each strategy moves at an event.

The plans come from `lb_core`, as in the operator.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from generate import marks
from lb_core import plan
from lb_core.model import Member, QueueRange
from lb_core.plan import Plan
from lb_core.policy import Policy, Zones

PAGE = Path("docs", "strategies.md")
ZONES = ("z1", "z2", "z3")


@dataclass(frozen=True, slots=True)
class Scene:
    """The queues, consumers and owners of a group before an event."""

    queues: tuple[QueueRange, ...]
    members: tuple[Member, ...]


Event = Callable[[Scene], Scene]


@dataclass(frozen=True, slots=True)
class Way:
    """A strategy and its settings, with the strategy's name in ConsumerGroups."""

    name: str
    policy: Policy = field(default_factory=Policy)


EVERYWHERE = (
    Way("Sticky"),
    Way("Averagely", Policy("AVG")),
    Way("AveragelyByCircle", Policy("AVG_BY_CIRCLE")),
    Way("ConsistentHash", Policy("CONSISTENT_HASH")),
    Way("MachineRoom", Policy("MACHINE_ROOM", {"rooms": ["z1", "z2"]})),
)
BY_ZONE = (
    Way("Sticky, zones: Prefer"),
    Way("Sticky, zones: Require", Policy(zones=Zones.REQUIRE)),
    Way("Sticky, zones: Ignore", Policy(zones=Zones.IGNORE)),
    Way("MachineRoomNearby", Policy("MACHINE_ROOM_NEARBY", {"inner": "AVG"})),
    Way("Averagely", Policy("AVG")),
)


def make_group(consumers: int, topics: int, queues: int) -> Scene:
    """Make a group whose topics are on two brokers, in two machine rooms and without zones."""
    return Scene(
        tuple(
            QueueRange(f"topic-{topic}", f"{room}@broker-{room}", 0, queues // topics // 2)
            for topic in range(topics)
            for room in ("z1", "z2")
        ),
        tuple(Member(f"c-{number:04d}") for number in range(consumers)),
    )


def make_zoned_group(consumers: Sequence[int], queues: int) -> Scene:
    """Make a group with these numbers of consumers in its zones. Each zone has `queues` queues."""
    return Scene(
        tuple(QueueRange("orders", f"broker-{zone}", 0, queues, zone) for zone in ZONES),
        tuple(
            Member(f"{zone}-c-{number}", zone)
            for zone, count in zip(ZONES, consumers, strict=True)
            for number in range(count)
        ),
    )


def join_one(scene: Scene) -> Scene:
    """Add a consumer whose name sorts into the middle."""
    middle = scene.members[len(scene.members) // 2]
    return replace(scene, members=(*scene.members, replace(middle, id=f"{middle.id}-new")))


def remove_one(scene: Scene) -> Scene:
    """Remove a consumer from the group."""
    middle = len(scene.members) // 2
    return replace(scene, members=scene.members[:middle] + scene.members[middle + 1 :])


def replace_one(scene: Scene) -> Scene:
    """Replace a consumer by a consumer whose name sorts last."""
    left = remove_one(scene)
    gone = scene.members[len(scene.members) // 2]
    return replace(left, members=(*left.members, replace(gone, id=f"{scene.members[-1].id}-new")))


def add_queues(scene: Scene) -> Scene:
    """Add a quarter more queues to the first topic on each broker."""
    first = scene.queues[0].topic
    return replace(
        scene,
        queues=tuple(
            replace(each, stop=each.stop * 5 // 4) if each.topic == first else each
            for each in scene.queues
        ),
    )


def a_zone_ends(scene: Scene) -> Scene:
    """Remove all consumers of the last zone."""
    return replace(scene, members=tuple(each for each in scene.members if each.zone != ZONES[-1]))


EVENTS: dict[str, Event] = {
    "a consumer joins": join_one,
    "a consumer leaves": remove_one,
    "a consumer is replaced": replace_one,
    "a topic grows": add_queues,
}
ZONE_EVENTS: dict[str, Event] = {
    "a consumer joins": join_one,
    "a consumer leaves": remove_one,
    "a zone's consumers leave": a_zone_ends,
}


def describe_loads(scene: Scene, made: Plan) -> str:
    """Describe the moves and the loads after an event."""
    return f"{made.moved:,} ({format_loads(made)})"


def describe_zones(scene: Scene, made: Plan) -> str:
    """Describe moves and loads after an event, and the share of queues read in their zone."""
    return f"{made.moved} ({format_loads(made)}; {_count_at_home(scene, made)})"


def format_loads(made: Plan) -> str:
    """Write the smallest and the largest load."""
    found = made.assignment.loads.values()
    least, most = min(found), max(found)
    return f"{least}" if least == most else f"{least} to {most}"


def _count_at_home(scene: Scene, made: Plan) -> str:
    zones = {member.id: member.zone for member in scene.members}
    runs = [(name, run) for name, owned in made.assignment.items() for run in owned]
    home = sum(len(run) for name, run in runs if run.zone == zones[name])
    return f"{100 * home // sum(len(run) for _, run in runs)} %"


def make_table(
    scene: Scene,
    ways: Iterable[Way],
    events: dict[str, Event],
    tell: Callable[[Scene, Plan], str],
) -> str:
    """Plan all events, and make a row for each strategy."""
    lines = [
        f"| strategy | at first | {' | '.join(events)} |",
        f"|---|{'---|' * (len(events) + 1)}",
    ]
    for way in ways:
        first = plan.plan(None, scene.queues, scene.members, way.policy)
        cells = [tell(scene, first).partition("(")[2].rstrip(")")]
        for event in events.values():
            after = event(scene)
            cells.append(tell(after, plan.plan(first, after.queues, after.members, way.policy)))
        lines.append(f"| {way.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def make_tables() -> dict[str, str]:
    """Make all tables, by the names of their marks on the page."""
    sizes = {"few": (3, 1, 16), "some": (10, 2, 64), "many": (100, 10, 1_000)}
    found = {
        name: make_table(make_group(*size), EVERYWHERE, EVENTS, describe_loads)
        for name, size in sizes.items()
    }
    zones = make_zoned_group((4, 3, 2), 16)
    return {**found, "zones": make_table(zones, BY_ZONE, ZONE_EVENTS, describe_zones)}


def write(root: Path) -> None:
    """Update the tables on the page."""
    marks.write(root / PAGE, make_tables())
