"""Builds groups, observations about them, and decisions."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from contract.conditions import ConditionType
from contract.kinds.groups import GroupStatus
from evenkeel import manifests
from evenkeel.control import conditions
from evenkeel.control.groups import group_status
from evenkeel.control.groups.group_status import GroupDecision
from evenkeel.control.groups.surroundings import GroupSurroundings
from evenkeel.control.jobs.states import JobSeen, JobState, Report, SlotExecutor
from evenkeel.objects import ConsumerGroup, Key, Topic

START = datetime(2026, 1, 1, tzinfo=UTC)
ORDERS = Key("default", "orders")
JOB = {"executors": 2, "sink": {"format": "noop"}, "checkpoint": {"url": "/state"}}


def topic(queues: int = 4, brokers: str = "ab", unreadable: str = "") -> Topic:
    perms = {each: "Write" if each in unreadable else "ReadWrite" for each in brokers}
    route = [
        {"broker": f"broker-{each}", "readQueues": queues, "writeQueues": queues, "perm": perm}
        for each, perm in perms.items()
    ]
    return manifests.read_topic(
        {"kind": "Topic", "metadata": {"name": "orders"}, "spec": {"route": route}}
    )


def group(
    status: GroupStatus | None = None, annotations: Mapping[str, str] | None = None, **spec: Any
) -> ConsumerGroup:
    consumers = {} if "consumers" in spec else {"job": {**JOB, **spec.pop("job", {})}}
    metadata = {"name": "billing", "generation": 1, "annotations": annotations}
    found = manifests.read_group(
        {
            "kind": "ConsumerGroup",
            "metadata": metadata,
            "spec": {"topics": [{"name": "orders"}], **consumers, **spec},
        }
    )
    return ConsumerGroup(found.head, found.spec, status or GroupStatus())


def running(
    slots: Mapping[str, str], adopted: int, error: str | None = None, coming: Sequence[str] = ()
) -> JobSeen:
    seats = {slot: SlotExecutor(executor) for slot, executor in slots.items()}
    return JobSeen(JobState.RUNNING, "", Report(adopted, seats, True, error, frozenset(coming)))


def seen(job: JobSeen | None = None, route: Topic | None = None, **more: Any) -> GroupSurroundings:
    return GroupSurroundings({ORDERS: route or topic()}, job, **more)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def owners(status: GroupStatus) -> dict[str, int]:
    """Count the queues that each consumer owns."""
    sizes = {}
    for each in status.assignments:
        pieces = [part for queues in each.queues for part in queues.ids.split(",")]
        ends = [piece.split("-") for piece in pieces]
        sizes[each.consumer] = sum(int(end[-1]) - int(end[0]) + 1 for end in ends)
    return sizes


def condition(decision: GroupDecision, kind: str) -> tuple[str, str]:
    found = conditions.find(decision.status.conditions, ConditionType(kind))
    assert found is not None
    return found.status.value, found.reason


def message(decision: GroupDecision, kind: str) -> str:
    found = conditions.find(decision.status.conditions, ConditionType(kind))
    assert found is not None
    return found.message


def settled(**spec: Any) -> GroupStatus:
    """Return the status of a group whose two executors have adopted epoch 1."""
    first = group_status.decide(group(**spec), seen(), START).status
    job = running({"billing-0": "0", "billing-1": "1"}, 1)
    return group_status.decide(group(first, **spec), seen(job), START).status


BOTH = {"billing-0": "0", "billing-1": "1"}
ALL = {**BOTH, "billing-2": "2"}


def grown(**spec: Any) -> GroupStatus:
    """Return the status of such a group that has just got a third slot, which is still empty."""
    wider = group(settled(**spec), job={"executors": 3}, **spec)
    return group_status.decide(wider, seen(running(BOTH, 1)), at(1)).status
