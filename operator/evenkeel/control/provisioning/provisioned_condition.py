"""Makes the condition `Provisioned` of a topic. Pure."""

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


def check_provisioned(topic: Topic, outcome: StepOutcome, is_shown: bool) -> Finding:
    """Report the changes, why queues are not drained yet, and which brokers failed."""
    away, refused = _list_unavailable(outcome), _list_refusals(outcome)
    said = [*refused, *away, *_list_changes(topic, outcome), *outcome.waits]
    is_settled = not outcome.step.puts and not outcome.step.closing
    if is_settled and not is_shown:
        said.append("the name server does not show the change yet")
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
    """Whether the name server's route already has the queues that the brokers have."""
    asked = (spec.read_queues, spec.write_queues)
    told = {each.broker: (each.read_queues, each.write_queues) for each in route}
    return all(told.get(name) == asked for name in outcome.brokers if name not in outcome.failed)


def _list_refusals(outcome: StepOutcome) -> list[str]:
    return [
        f"{name} refuses: {error}; correct spec.provision, or give the right to the Topic's "
        "credentials"
        for name, error in outcome.failed.items()
        if not isinstance(error, errors.UnavailableError)
    ]


def _list_unavailable(outcome: StepOutcome) -> list[str]:
    return [
        f"{name} is unreachable and keeps its queues: {error}"
        for name, error in outcome.failed.items()
        if isinstance(error, errors.UnavailableError)
    ]


def _list_changes(topic: Topic, outcome: StepOutcome) -> list[str]:
    """List the changes of this step, and which queues close."""
    step = outcome.step
    done = [name for name in step.puts if name not in outcome.failed]
    made = [name for name in done if name in step.made]
    changed = [name for name in done if name not in step.made and name not in step.closing]
    said = []
    if made:
        said.append(f"the topic is created on {', '.join(made)}")
    if changed:
        said.append(f"the numbers of queues are changed on {', '.join(changed)}")
    closing = [
        QueueRange(topic.topic, name, ids.start, ids.stop)
        for name, ids in step.closing.items()
        if name not in outcome.failed
    ]
    if closing:
        said.append(f"{closing_queues.format_ranges(closing)} close")
    return said
