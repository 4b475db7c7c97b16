"""What follows for a topic from what is seen of it at its brokers: its next status. Pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.topics import AwayBroker, BrokerQueues, Perm, Provision, TopicStatus
from evenkeel import times
from evenkeel.control import conditions, rivals
from evenkeel.control.conditions import Finding
from evenkeel.control.conflicts import Conflict
from evenkeel.control.provisioning import provisioned_condition, steps
from evenkeel.control.provisioning.steps import StepOutcome
from evenkeel.objects import Topic
from mq_client import values

SOON_SECONDS = 2.0
"""Until the next look at what is under way."""
MOST_ZONE = 253
"""Letters that a status takes of a zone; those of Kubernetes are no longer."""
AWAY_SECONDS = 600.0
"""
So long the queues of a broker that the name server has dropped keep their owners.

One that crashed is back in seconds or, with much to recover, in minutes. To share out the others'
queues meanwhile, and all of them once more when it is back, would move what nobody has to move.
"""


@dataclass(frozen=True, slots=True)
class ReadFailure:
    """Why something could not be read."""

    reason: ConditionReason
    message: str


@dataclass(frozen=True, slots=True)
class Sight:
    """What is seen of a topic."""

    route: Sequence[BrokerQueues] | ReadFailure
    provisioned: StepOutcome | ReadFailure | None = None
    """What became of `spec.provision`; None where it is not followed."""
    conflict: Conflict | None = None


@dataclass(frozen=True, slots=True)
class TopicDecision:
    """What follows."""

    status: TopicStatus
    look_again_seconds: float


def decide(topic: Topic, sight: Sight, now: datetime) -> TopicDecision:
    """Write down what is seen. A route that could not be read leaves the last one as it is."""
    status = topic.status
    if not isinstance(sight.route, ReadFailure):
        away = _away(topic, sight.route, now)
        gone = [each for each in status.brokers if each.broker in {it.broker for it in away}]
        route = sorted([*sight.route, *gone], key=lambda each: each.broker)
        status = msgspec.structs.replace(
            status,
            brokers=route,
            away=away,
            read_queues=sum(each.read_queues for each in route),
            write_queues=sum(each.write_queues for each in route),
            route_hash=_hash(route),
        )
    status = msgspec.structs.replace(status, claims=rivals.topic_claims(topic, sight.conflict))
    kept = _provisioned(topic, sight)
    found = [_ready(topic, sight, kept, status.away), *kept]
    if sight.conflict is not None:
        found.append(
            Finding(ConditionType.CONFLICTED, True, sight.conflict.reason, sight.conflict.message)
        )
    generation = topic.head.generation
    merged = conditions.merged(topic.status.conditions, found, generation, now)
    again = times.seconds(topic.spec.refresh_interval)
    return TopicDecision(
        msgspec.structs.replace(status, observed_generation=generation, conditions=merged),
        min(again, SOON_SECONDS) if _is_under_way(sight, kept) else again,
    )


def _away(topic: Topic, route: Sequence[BrokerQueues], now: datetime) -> list[AwayBroker]:
    """List brokers that were there and are not, and not for long enough to be given up."""
    if topic.status.observed_generation != topic.head.generation:
        return []  # it may be other name servers now, or another topic
    known = {each.broker: each.since for each in topic.status.away}
    missing = {each.broker for each in topic.status.brokers} - {each.broker for each in route}
    found = [AwayBroker(name, known.get(name, times.shown(now))) for name in sorted(missing)]
    return [each for each in found if times.since(each.since, now) < AWAY_SECONDS]


def to_follow(topic: Topic, conflict: Conflict | None) -> Provision | None:
    """Find out what to bring about at the brokers; None: nothing may be changed there."""
    spec = topic.spec.provision
    is_good = spec is not None and conflict is None and steps.complaint(spec) is None
    return spec if is_good else None


def _provisioned(topic: Topic, sight: Sight) -> list[Finding]:
    """Say how `spec.provision` is followed, if it is."""
    spec = topic.spec.provision
    if spec is None or sight.conflict is not None:
        return []
    if complaint := steps.complaint(spec):
        text = f"{topic}: {complaint}"
        return [Finding(ConditionType.PROVISIONED, False, ConditionReason.INVALID_SPEC, text)]
    match sight.provisioned:
        case None:
            return []
        case ReadFailure(reason, message):
            return [Finding(ConditionType.PROVISIONED, None, reason, message)]
        case StepOutcome() as outcome:
            told = [] if isinstance(sight.route, ReadFailure) else sight.route
            is_shown = provisioned_condition.is_shown(spec, outcome, told)
            return [provisioned_condition.finding(topic, outcome, is_shown)]


def _ready(
    topic: Topic, sight: Sight, kept: Sequence[Finding], away: Sequence[AwayBroker]
) -> Finding:
    if sight.conflict is not None:
        return Finding(ConditionType.READY, False, sight.conflict.reason, sight.conflict.message)
    if isinstance(sight.route, ReadFailure):
        missing = sight.route.reason is ConditionReason.TOPIC_UNKNOWN and kept and not kept[0].holds
        reason = kept[0] if missing else sight.route
        return Finding(ConditionType.READY, False, reason.reason, reason.message)
    if not any(each.read_queues for each in sight.route):
        text = f"{topic}: no broker has readable queues"
        return Finding(ConditionType.READY, False, ConditionReason.NO_QUEUES, text)
    if away:
        names = ", ".join(f"{each.broker} since {each.since}" for each in away)
        text = f"{topic}: the name server does not tell of {names}; their queues keep their owners "
        text += "for ten minutes"
        return Finding(ConditionType.READY, True, ConditionReason.BROKER_AWAY, text)
    return Finding(ConditionType.READY, True, ConditionReason.ROUTE_READ)


def _is_under_way(sight: Sight, kept: Sequence[Finding]) -> bool:
    is_moving = isinstance(sight.provisioned, StepOutcome) and sight.provisioned.is_under_way
    return is_moving or any(each.reason is ConditionReason.CREATING for each in kept)


def brokers(route: values.Route) -> list[BrokerQueues]:
    """Say a route as the status does."""
    found = [
        BrokerQueues(
            each.broker,
            each.read_queues,
            each.write_queues,
            _perm(each.perm),
            zone=each.zone[:MOST_ZONE] if each.zone else None,
        )
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
