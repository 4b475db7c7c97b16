"""What follows for a topic from what its name server says: its next status. Pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from evenkeel.api.topics import BrokerQueues, Perm, TopicStatus
from evenkeel.control import conditions
from evenkeel.control.conditions import Finding
from evenkeel.objects import Topic
from mq_client import values


@dataclass(frozen=True, slots=True)
class Unread:
    """Why a route could not be read."""

    reason: str
    message: str


def decide(topic: Topic, route: Sequence[BrokerQueues] | Unread, now: datetime) -> TopicStatus:
    """Write a route down. One that could not be read leaves the last one as it is."""
    kept = topic.status
    if isinstance(route, Unread):
        found = Finding("Ready", False, route.reason, route.message)
    else:
        kept = msgspec.structs.replace(
            kept,
            brokers=list(route),
            read_queues=sum(each.read_queues for each in route),
            write_queues=sum(each.write_queues for each in route),
            route_hash=_hash(route),
        )
        found = Finding("Ready", True, "RouteRead")
        if not kept.read_queues:
            found = Finding("Ready", False, "NoQueues", f"{topic}: no broker has readable queues")
    generation = topic.head.generation
    merged = conditions.merged(topic.status.conditions, [found], generation, now)
    return msgspec.structs.replace(kept, observed_generation=generation, conditions=merged)


def brokers(route: values.Route) -> list[BrokerQueues]:
    """Say a route as the status does."""
    found = [
        BrokerQueues(each.broker, each.read_queues, each.write_queues, _perm(each.perm))
        for each in route.brokers
        if each.perm & (values.READ | values.WRITE)
    ]
    return sorted(found, key=lambda each: each.broker)


def _perm(bits: int) -> Perm:
    if bits & values.READ and bits & values.WRITE:
        return Perm.READ_WRITE
    return Perm.READ if bits & values.READ else Perm.WRITE


def _hash(route: Sequence[BrokerQueues]) -> str:
    return hashlib.sha256(msgspec.json.encode(route)).hexdigest()[:16]
