"""
Plans the next step towards the numbers of queues in a topic's spec. Pure.

Queues are added at once. They are removed in two steps: first they are closed for writes, and when
they are drained they are closed for reads too. Each broker is handled independently, so an
unreachable broker does not delay the others.
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
    """The current or the desired numbers of queues of a topic on one broker."""

    read_queues: int
    write_queues: int
    perm: int


Route = Mapping[str, QueueCounts | None]
"""The queues on each reachable broker; None if the broker does not have the topic."""


@dataclass(frozen=True, slots=True)
class TopicStep:
    """The changes to write now, and the queues that are closing."""

    puts: Mapping[str, QueueCounts] = field(default_factory=dict)
    """The numbers of queues to write, by broker."""
    made: tuple[str, ...] = ()
    """Brokers where the topic is new."""
    closing: Mapping[str, range] = field(default_factory=dict)
    """The queues of each broker that must be removed."""


def build_goal(spec: api.Provision) -> QueueCounts:
    """Translate a spec into RocketMQ's settings."""
    return QueueCounts(spec.read_queues, spec.write_queues, _BITS[spec.perm])


def find_closing(goal: QueueCounts, route: Route) -> dict[str, range]:
    """Find the closing queues that are already closed for writes, by broker."""
    return {
        broker: range(goal.read_queues, there.read_queues)
        for broker, there in route.items()
        if there is not None
        and there.write_queues <= goal.write_queues
        and there.read_queues > goal.read_queues
    }


def plan_step(
    goal: QueueCounts, route: Route, drained: Mapping[str, AbstractSet[int]]
) -> TopicStep:
    """
    Plan the changes to write now.

    `drained` contains the ids of drained queues by broker. All other queues stay readable.
    """
    closed = {
        broker
        for broker, ids in find_closing(goal, route).items()
        if drained.get(broker, frozenset()) >= set(ids)
    }
    targets = {
        broker: _build_target(goal, there, may_close=broker in closed)
        for broker, there in route.items()
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


def _build_target(goal: QueueCounts, there: QueueCounts | None, *, may_close: bool) -> QueueCounts:
    if there is None:
        return goal
    read = goal.read_queues if may_close else max(goal.read_queues, there.read_queues)
    kept = there.perm & ~(READ | WRITE)
    return QueueCounts(read, goal.write_queues, kept | goal.perm)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The result of a step."""

    step: TopicStep
    brokers: tuple[str, ...]
    """The brokers that answered."""
    waits: tuple[str, ...] = ()
    """Why closing queues are not drained yet."""
    failed: Mapping[str, MqError] = field(default_factory=dict)
    """Brokers that did not answer, or that refused a request."""

    @property
    def is_under_way(self) -> bool:
        """Whether a change is in progress. Failed brokers are retried at the next refresh."""
        return bool((self.step.puts.keys() | self.step.closing.keys()) - self.failed.keys())


def find_fault(spec: api.Provision) -> str | None:
    """Explain why a spec cannot be provisioned; None if it can."""
    if spec.read_queues >= spec.write_queues:
        return None
    return (
        f"spec.provision asks for {spec.write_queues} writable and {spec.read_queues} readable "
        "queues, so some messages could not be read; set readQueues to at least writeQueues"
    )
