"""The small group that tries an operator out, and what its assignment must be. Pure."""

from typing import Any

from contract.kinds.groups import Assigned
from contract.names import API_VERSION
from evenkeel import planning
from evenkeel.control import conditions
from evenkeel.objects import ConsumerGroup
from lb_core import plan
from lb_core.assignment import format_ids
from lb_core.model import Member, QueueRange

BROKERS = ("broker-a", "broker-b")
QUEUES = 4
CONSUMERS = ("one", "two", "three")
Document = dict[str, Any]


def topic(name: str) -> Document:
    """Make a topic whose queues are written down, so that no broker is needed."""
    route = [{"broker": each, "readQueues": QUEUES, "writeQueues": QUEUES} for each in BROKERS]
    return _object("Topic", name, {"route": route})


def group(name: str) -> Document:
    """Make a group whose consumers are a list, so that no pod is needed."""
    static = [{"id": each} for each in CONSUMERS]
    spec = {"topics": [{"name": name}], "consumers": {"static": static}}
    return _object("ConsumerGroup", name, spec)


def _object(kind: str, name: str, spec: Document) -> Document:
    metadata = {"name": name}
    return {
        "apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec
    }  # fmt: skip


def is_ready(found: ConsumerGroup) -> bool:
    """Whether the operator calls the group ready, and means its newest spec."""
    ready = conditions.find(found.status.conditions, "Ready")
    is_newest = found.status.observed_generation == found.head.generation
    return ready is not None and ready.holds and is_newest


def complaint(found: ConsumerGroup, name: str) -> str:
    """Say what is wrong about the assignment; empty if it is the one that must come out."""
    queues = [QueueRange(name, broker, 0, QUEUES) for broker in BROKERS]
    wanted = plan.plan(None, queues, list(map(Member, CONSUMERS))).assignment
    owned = {each.consumer: tuple(planning.owned(each)) for each in found.status.assignments}
    if owned == {consumer: wanted[consumer] for consumer in wanted}:
        return ""
    return f"it should be {_shown(dict(wanted))}, and is {_shown(owned)}"


def seen(assigned: Assigned) -> str:
    """Say what a consumer has."""
    return _shown({assigned.consumer: tuple(planning.owned(assigned))})


def _shown(owned: dict[str, tuple[QueueRange, ...]]) -> str:
    return "; ".join(
        f"{consumer}: " + (", ".join(f"{run.broker} {format_ids([run])}" for run in runs) or "none")
        for consumer, runs in owned.items()
    )
