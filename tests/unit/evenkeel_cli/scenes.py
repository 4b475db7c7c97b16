"""Groups as an operator leaves them: their statuses are its own decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel import manifests
from evenkeel.control.groups import group_status
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
    """Queues on broker-a, broker-b and so on, a zone for each broker."""
    route = [
        {"broker": f"broker-{letter}", "readQueues": queues, "writeQueues": queues, "zone": zone}
        for letter, zone in zip("abcd", zones, strict=False)
    ]
    return manifests.read_topic(
        {"kind": "Topic", "metadata": {"name": "orders"}, "spec": {"route": route}}
    )


def group(annotations: Mapping[str, str] | None = None, **spec: Any) -> ConsumerGroup:
    """A group of pods, unless it says something else."""
    consumers = {} if spec.keys() & {"job", "consumers"} else {"consumers": PODS}
    metadata = {"name": "billing", "generation": 1, "annotations": annotations or {}}
    whole = {"topics": [{"name": "orders"}], **consumers, **spec}
    return manifests.read_group({"kind": "ConsumerGroup", "metadata": metadata, "spec": whole})


def members(*names: str, zones: Mapping[str, str] | None = None) -> list[Member]:
    """Pods that are ready."""
    return [Member(name, (zones or {}).get(name)) for name in names]


def running(adopted: int = 1, **executors: str) -> JobSeen:
    """A job whose executors, each in a pod, fill slots 0, 1, and so on, given as `slot_0`."""
    seats = {
        f"billing-{slot.removeprefix('slot_')}": SlotExecutor(executor, f"billing-exec-{executor}")
        for slot, executor in executors.items()
    }
    return JobSeen(JobState.RUNNING, "", Report(adopted, seats, is_pinned=True))


def after(
    found: ConsumerGroup, *seen: Sequence[Member] | JobSeen | None, route: Topic | None = None
) -> ConsumerGroup:
    """Let the operator see these one after the other, a minute apart."""
    for minute, each in enumerate(seen):
        job = each if isinstance(each, JobSeen) else None
        pods = None if job is not None else each
        sight = GroupSurroundings({ORDERS: route or topic()}, job, pods)  # type: ignore[arg-type]
        now = START + timedelta(minutes=minute)
        found = replace(found, status=group_status.decide(found, sight, now).status)
    return found


def annotated(found: ConsumerGroup, **annotations: str) -> ConsumerGroup:
    """A group with annotations of ours, given without what their names begin with."""
    ours = {f"evenkeel.dev/{name}": value for name, value in annotations.items()}
    return replace(found, head=replace(found.head, annotations=ours))


def explained(found: ConsumerGroup, minutes: float, route: Topic | None = None) -> Explanation:
    """Explain it so long after its beginning, without Events."""
    now = START + timedelta(minutes=minutes)
    return explaining.explain(found, {ORDERS: route or topic()}, Past(found.status), now)
