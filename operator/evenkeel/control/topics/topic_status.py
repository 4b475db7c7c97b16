"""Decides the next status of a topic from its route and its provisioning. Pure."""

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
"""Interval of reconciles while a change is in progress."""
MOST_ZONE = 253
"""Maximum length of a zone's name in a status, as in Kubernetes."""
AWAY_SECONDS = 600.0
"""
How long queues keep their owners after their broker leaves the route.

A broker that crashed is back within seconds or, if it must recover much data, within minutes. In
this time, moving its queues away and back again would be needless.
"""


@dataclass(frozen=True, slots=True)
class ReadFailure:
    """Why something could not be read."""

    reason: ConditionReason
    message: str


@dataclass(frozen=True, slots=True)
class Sight:
    """Everything that is observed for a topic."""

    route: Sequence[BrokerQueues] | ReadFailure
    provisioned: StepOutcome | ReadFailure | None = None
    """The result of the last provisioning step; None if the topic is not provisioned."""
    conflict: Conflict | None = None


@dataclass(frozen=True, slots=True)
class TopicDecision:
    """The next status of a topic."""

    status: TopicStatus
    look_again_seconds: float


def decide(topic: Topic, sight: Sight, now: datetime) -> TopicDecision:
    """Decide the next status. If the route could not be read, the last route is kept."""
    status = topic.status
    if not isinstance(sight.route, ReadFailure):
        away = _find_away(topic, sight.route, now)
        gone = [each for each in status.brokers if each.broker in {it.broker for it in away}]
        route = sorted([*sight.route, *gone], key=lambda each: each.broker)
        status = msgspec.structs.replace(
            status,
            brokers=route,
            away=away,
            read_queues=sum(each.read_queues for each in route),
            write_queues=sum(each.write_queues for each in route),
            route_hash=_hash_route(route),
        )
    status = msgspec.structs.replace(
        status, claims=rivals.update_topic_claims(topic, sight.conflict)
    )
    kept = _check_provisioned(topic, sight)
    found = [_check_ready(topic, sight, kept, status.away), *kept]
    if sight.conflict is not None:
        found.append(
            Finding(ConditionType.CONFLICTED, True, sight.conflict.reason, sight.conflict.message)
        )
    generation = topic.head.generation
    merged = conditions.merge(topic.status.conditions, found, generation, now)
    again = times.parse_duration(topic.spec.refresh_interval)
    return TopicDecision(
        msgspec.structs.replace(status, observed_generation=generation, conditions=merged),
        min(again, SOON_SECONDS) if _is_under_way(sight, kept) else again,
    )


def _find_away(topic: Topic, route: Sequence[BrokerQueues], now: datetime) -> list[AwayBroker]:
    """List brokers that left the route less than `AWAY_SECONDS` ago."""
    if topic.status.observed_generation != topic.head.generation:
        return []  # the spec may name other name servers now, or another topic
    known = {each.broker: each.since for each in topic.status.away}
    missing = {each.broker for each in topic.status.brokers} - {each.broker for each in route}
    found = [AwayBroker(name, known.get(name, times.format_time(now))) for name in sorted(missing)]
    return [each for each in found if times.measure_since(each.since, now) < AWAY_SECONDS]


def choose_provision(topic: Topic, conflict: Conflict | None) -> Provision | None:
    """Return the settings to provision; None if the brokers must not be changed."""
    spec = topic.spec.provision
    is_good = spec is not None and conflict is None and steps.find_fault(spec) is None
    return spec if is_good else None


def _check_provisioned(topic: Topic, sight: Sight) -> list[Finding]:
    """Check the progress of `spec.provision`, if there is one."""
    spec = topic.spec.provision
    if spec is None or sight.conflict is not None:
        return []
    if complaint := steps.find_fault(spec):
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
            return [provisioned_condition.check_provisioned(topic, outcome, is_shown)]


def _check_ready(
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
        text = f"{topic}: the route has not contained {names}; queues keep their owners for ten "
        text += "minutes after their broker leaves the route"
        return Finding(ConditionType.READY, True, ConditionReason.BROKER_AWAY, text)
    return Finding(ConditionType.READY, True, ConditionReason.ROUTE_READ)


def _is_under_way(sight: Sight, kept: Sequence[Finding]) -> bool:
    is_moving = isinstance(sight.provisioned, StepOutcome) and sight.provisioned.is_under_way
    return is_moving or any(each.reason is ConditionReason.CREATING for each in kept)


def list_brokers(route: values.Route) -> list[BrokerQueues]:
    """List the brokers of a route for the status."""
    found = [
        BrokerQueues(
            each.broker,
            each.read_queues,
            each.write_queues,
            _read_perm(each.perm),
            zone=each.zone[:MOST_ZONE] if each.zone else None,
        )
        for each in route.brokers
        if each.perm & (values.READ | values.WRITE)
    ]
    return sorted(found, key=lambda each: each.broker)


def _read_perm(bits: int) -> Perm:
    if bits & values.READ and bits & values.WRITE:
        return Perm.READ_WRITE
    return Perm.READ if bits & values.READ else Perm.WRITE


def _hash_route(route: Sequence[BrokerQueues]) -> str:
    return hashlib.sha256(msgspec.json.encode(route)).hexdigest()[:16]
