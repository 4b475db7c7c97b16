"""Builds a small group that tests an operator, and checks the group's assignment. Pure."""

from typing import Any

from contract.conditions import ConditionType
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


def make_topic(name: str) -> Document:
    """Make a Topic with its queues in the spec, so that it needs no broker."""
    route = [{"broker": each, "readQueues": QUEUES, "writeQueues": QUEUES} for each in BROKERS]
    return _make_object("Topic", name, {"route": route})


def make_group(name: str) -> Document:
    """Make a group with a list of consumers, so that it needs no pods."""
    static = [{"id": each} for each in CONSUMERS]
    spec = {"topics": [{"name": name}], "consumers": {"static": static}}
    return _make_object("ConsumerGroup", name, spec)


def _make_object(kind: str, name: str, spec: Document) -> Document:
    metadata = {"name": name}
    return {
        "apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec
    }  # fmt: skip


def is_ready(found: ConsumerGroup) -> bool:
    """Whether the group is Ready for the current generation of its spec."""
    ready = conditions.find(found.status.conditions, ConditionType.READY)
    is_newest = found.status.observed_generation == found.head.generation
    return ready is not None and ready.holds and is_newest


def find_fault(found: ConsumerGroup, name: str) -> str:
    """Describe what is wrong with the assignment; empty if it is right."""
    queues = [QueueRange(name, broker, 0, QUEUES) for broker in BROKERS]
    wanted = plan.plan(None, queues, list(map(Member, CONSUMERS))).assignment
    owned = {each.consumer: tuple(planning.read_owned(each)) for each in found.status.assignments}
    if owned == {consumer: wanted[consumer] for consumer in wanted}:
        return ""
    return f"expected {_format_shares(dict(wanted))}, found {_format_shares(owned)}"


def describe_share(assigned: Assigned) -> str:
    """Write a consumer and its queues."""
    return _format_shares({assigned.consumer: tuple(planning.read_owned(assigned))})


def _format_shares(owned: dict[str, tuple[QueueRange, ...]]) -> str:
    return "; ".join(
        f"{consumer}: " + (", ".join(f"{run.broker} {format_ids([run])}" for run in runs) or "none")
        for consumer, runs in owned.items()
    )
