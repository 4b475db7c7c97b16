"""What there is to say of a topic that is made and resized: the condition `Provisioned`. Pure."""

from collections.abc import Sequence

from contract.conditions import ConditionReason, ConditionType
from contract.kinds import topics as api
from evenkeel.control.conditions import Finding
from evenkeel.control.provisioning import closing_queues
from evenkeel.control.provisioning.steps import StepOutcome
from evenkeel.objects import Topic
from lb_core.model import QueueRange
from mq_client import errors

TYPE = ConditionType.PROVISIONED


def finding(topic: Topic, outcome: StepOutcome, is_shown: bool) -> Finding:
    """Say what is done, what is waited for, and who does not take part."""
    away, refused = _away(outcome), _refused(outcome)
    said = [*refused, *away, *_done(topic, outcome), *outcome.waits]
    is_settled = not outcome.step.puts and not outcome.step.closing
    if is_settled and not is_shown:
        said.append("the name server does not tell of it yet")
    text = f"{topic}: {'; '.join(said)}" if said else ""
    if refused:
        return Finding(TYPE, False, ConditionReason.REFUSED, text)
    if away:
        return Finding(TYPE, False, ConditionReason.BROKER_UNAVAILABLE, text)
    if outcome.step.closing:
        return Finding(TYPE, False, ConditionReason.DRAINING, text)
    if is_settled and is_shown:
        return Finding(TYPE, True, ConditionReason.AS_ASKED)
    return Finding(TYPE, False, ConditionReason.CREATING, text)


def is_shown(spec: api.Provision, outcome: StepOutcome, route: Sequence[api.BrokerQueues]) -> bool:
    """Whether the name server tells of all that the brokers have."""
    asked = (spec.read_queues, spec.write_queues)
    told = {each.broker: (each.read_queues, each.write_queues) for each in route}
    return all(told.get(name) == asked for name in outcome.brokers if name not in outcome.failed)


def _refused(outcome: StepOutcome) -> list[str]:
    return [
        f"{name} refuses: {error}; correct spec.provision, or let these credentials do it"
        for name, error in outcome.failed.items()
        if not isinstance(error, errors.UnavailableError)
    ]


def _away(outcome: StepOutcome) -> list[str]:
    return [
        f"{name} is out of reach and keeps what it has: {error}"
        for name, error in outcome.failed.items()
        if isinstance(error, errors.UnavailableError)
    ]


def _done(topic: Topic, outcome: StepOutcome) -> list[str]:
    """Tell what was written now, and which queues close."""
    step = outcome.step
    done = [name for name in step.puts if name not in outcome.failed]
    made = [name for name in done if name in step.made]
    changed = [name for name in done if name not in step.made and name not in step.closing]
    said = []
    if made:
        said.append(f"it is made on {', '.join(made)}")
    if changed:
        said.append(f"its queues are changed on {', '.join(changed)}")
    closing = [
        QueueRange(topic.topic, name, ids.start, ids.stop)
        for name, ids in step.closing.items()
        if name not in outcome.failed
    ]
    if closing:
        said.append(f"{closing_queues.shown(closing)} close")
    return said
