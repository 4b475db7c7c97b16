"""
What to do next so that a topic has the queues that it shall have. Pure.

More queues come at once. Fewer come in order: first nobody may write to the queues that close;
when they are drained, nobody need read them either. Each broker goes its own way, so one that is
out of reach holds up no other.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from contract.kinds import topics as api
from mq_client.errors import MqError
from mq_client.values import READ, WRITE

_BITS = {api.Perm.READ_WRITE: READ | WRITE, api.Perm.READ: READ, api.Perm.WRITE: WRITE}


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """What a topic has on one broker, or shall have."""

    read_queues: int
    write_queues: int
    perm: int


Route = Mapping[str, QueueCounts | None]
"""What the brokers in reach have, by name; None where the topic is missing."""


@dataclass(frozen=True, slots=True)
class TopicStep:
    """What to do now, and what is under way."""

    puts: Mapping[str, QueueCounts] = field(default_factory=dict)
    """What to write, by broker."""
    made: tuple[str, ...] = ()
    """Brokers where the topic is new."""
    closing: Mapping[str, range] = field(default_factory=dict)
    """Queues of each broker that shall not be there any more, and still are."""


def wanted(spec: api.Provision) -> QueueCounts:
    """Say in RocketMQ's terms what is asked for."""
    return QueueCounts(spec.read_queues, spec.write_queues, _BITS[spec.perm])


def to_drain(goal: QueueCounts, route: Route) -> dict[str, range]:
    """Find the queues, by broker, that close and that nobody may write to any more."""
    return {
        broker: range(goal.read_queues, there.read_queues)
        for broker, there in route.items()
        if there is not None
        and there.write_queues <= goal.write_queues
        and there.read_queues > goal.read_queues
    }


def next_step(
    goal: QueueCounts, route: Route, drained: Mapping[str, AbstractSet[int]]
) -> TopicStep:
    """
    Decide what to write now.

    `drained` are ids by broker that nobody has to read any more. What it does not name stays.
    """
    closed = {
        broker
        for broker, ids in to_drain(goal, route).items()
        if drained.get(broker, frozenset()) >= set(ids)
    }
    targets = {
        broker: _target(goal, there, may_close=broker in closed) for broker, there in route.items()
    }
    return TopicStep(
        {broker: target for broker, target in targets.items() if target != route[broker]},
        tuple(broker for broker, there in route.items() if there is None),
        {
            broker: range(goal.read_queues, there.read_queues)
            for broker, there in route.items()
            if there is not None and there.read_queues > goal.read_queues
        },
    )


def _target(goal: QueueCounts, there: QueueCounts | None, *, may_close: bool) -> QueueCounts:
    if there is None:
        return goal
    read = goal.read_queues if may_close else max(goal.read_queues, there.read_queues)
    kept = there.perm & ~(READ | WRITE)
    return QueueCounts(read, goal.write_queues, kept | goal.perm)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What became of a step."""

    step: TopicStep
    brokers: tuple[str, ...]
    """Those that told what they have."""
    waits: tuple[str, ...] = ()
    """Why queues that close are not drained."""
    failed: Mapping[str, MqError] = field(default_factory=dict)
    """Brokers that could not be asked, or said no."""

    @property
    def is_under_way(self) -> bool:
        """Whether something changes soon; what has failed is tried again when all is read anew."""
        return bool((self.step.puts.keys() | self.step.closing.keys()) - self.failed.keys())


def complaint(spec: api.Provision) -> str | None:
    """Say why a spec cannot be followed."""
    if spec.read_queues >= spec.write_queues:
        return None
    return (
        f"spec.provision asks for {spec.write_queues} writable and {spec.read_queues} readable "
        "queues, so nobody could read all that is written; ask for at least as many readable ones"
    )
