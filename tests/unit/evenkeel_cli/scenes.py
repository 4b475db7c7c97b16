"""Builds groups as an operator leaves them: the operator's code decides their statuses."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from contract.kinds.groups import Balance, GroupStatus
from evenkeel import manifests
from evenkeel.control.groups import group_status
from evenkeel.control.groups.member_slots import LiveMember
from evenkeel.control.groups.surroundings import GroupSurroundings
from evenkeel.control.jobs.states import JobSeen, JobState, Report, SlotExecutor
from evenkeel.objects import ConsumerGroup, Key, Topic
from evenkeel_cli.facts import explaining
from evenkeel_cli.facts.explaining import Explanation
from evenkeel_cli.facts.past import Past
from lb_core.model import Member

START = datetime(2026, 1, 1, tzinfo=UTC)
ORDERS = Key("default", "orders")
JOB = {"executors": 2, "sink": {"format": "noop"}, "checkpoint": {"url": "/state"}}
PODS = {"podSelector": {"matchLabels": {"app": "billing"}}}


def topic(zones: Sequence[str | None] = (None, None), queues: int = 4) -> Topic:
    """Make a topic with queues on broker-a, broker-b and so on, each broker in its own zone."""
    route = [
        {"broker": f"broker-{letter}", "readQueues": queues, "writeQueues": queues, "zone": zone}
        for letter, zone in zip("abcd", zones, strict=False)
    ]
    return manifests.read_topic(
        {"kind": "Topic", "metadata": {"name": "orders"}, "spec": {"route": route}}
    )


def group(annotations: Mapping[str, str] | None = None, **spec: Any) -> ConsumerGroup:
    """Make a group, of pods unless the spec says otherwise."""
    consumers = {} if spec.keys() & {"job", "consumers"} else {"consumers": PODS}
    metadata = {"name": "billing", "generation": 1, "annotations": annotations or {}}
    whole = {"topics": [{"name": "orders"}], **consumers, **spec}
    return manifests.read_group({"kind": "ConsumerGroup", "metadata": metadata, "spec": whole})


def by_message(*names: str, **seen: Any) -> ConsumerGroup:
    """Make a group that is balanced by message, with these members, as the operator sees it."""
    found = group(balance="Messages", consumers={"members": {}})
    found = replace(found, status=GroupStatus(balance=Balance.MESSAGES))
    live = [LiveMember(name, START) for name in names]
    sight = GroupSurroundings({ORDERS: topic()}, live=live, **seen)
    return replace(found, status=group_status.decide(found, sight, START).status)


def members(*names: str, zones: Mapping[str, str] | None = None) -> list[Member]:
    """Make members from ready pods."""
    return [Member(name, (zones or {}).get(name)) for name in names]


def running(adopted: int = 1, **executors: str) -> JobSeen:
    """Make a job whose executors, each in a pod, fill the slots 0, 1, and so on, as `slot_0`."""
    seats = {
        f"billing-{slot.removeprefix('slot_')}": SlotExecutor(executor, f"billing-exec-{executor}")
        for slot, executor in executors.items()
    }
    return JobSeen(JobState.RUNNING, "", Report(adopted, seats, is_pinned=True))


def after(
    found: ConsumerGroup, *seen: Sequence[Member] | JobSeen | None, route: Topic | None = None
) -> ConsumerGroup:
    """Let the operator make these observations, a minute apart."""
    for minute, each in enumerate(seen):
        job = each if isinstance(each, JobSeen) else None
        pods = None if job is not None else each
        sight = GroupSurroundings({ORDERS: route or topic()}, job, pods)  # type: ignore[arg-type]
        now = START + timedelta(minutes=minute)
        found = replace(found, status=group_status.decide(found, sight, now).status)
    return found


def annotated(found: ConsumerGroup, **annotations: str) -> ConsumerGroup:
    """Make a group with our annotations, given without the prefix of their names."""
    ours = {f"evenkeel.dev/{name}": value for name, value in annotations.items()}
    return replace(found, head=replace(found.head, annotations=ours))


def explained(found: ConsumerGroup, minutes: float, route: Topic | None = None) -> Explanation:
    """Explain a group without Events, this many minutes after `START`."""
    now = START + timedelta(minutes=minutes)
    return explaining.explain(found, {ORDERS: route or topic()}, Past(found.status), now)
