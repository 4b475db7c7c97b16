"""Finds which pods of which groups to drain, and whether they are drained. Pure."""

from collections.abc import Collection, Iterable, Sequence

from contract.conditions import ConditionType
from contract.kinds.groups import Assigned
from contract.names import name_driver as driver_name
from evenkeel import planning
from evenkeel.control import conditions
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup
from evenkeel_cli.facts import requests, words

MOST_NAMED = 20


def find_readers(group: ConsumerGroup) -> dict[str, Assigned]:
    """Map the name of each pod that reads queues, or of each static consumer, to its assignment."""
    found = group.status.assignments
    if group.spec.job is None and not planning.has_members(group):
        return {each.consumer: each for each in found}
    return {each.pod: each for each in found if each.pod and not each.empty_since}


def match_pods(
    groups: Sequence[ConsumerGroup], pods: Sequence[str], *, undo: bool
) -> list[tuple[ConsumerGroup, list[str]]]:
    """Find the groups of these pods. If a pod belongs to no group, raise an error."""
    found = [(group, [each for each in pods if _has(group, each, undo=undo)]) for group in groups]
    known = {each for _, some in found for each in some}
    for each in pods:
        if each not in known:
            raise EvenkeelError(_describe_unknown(each, groups, undo=undo))
    return [(group, some) for group, some in found if some]


def _has(group: ConsumerGroup, pod: str, *, undo: bool) -> bool:
    return pod in find_readers(group) or (undo and pod in group.to_drain)


def _describe_unknown(pod: str, groups: Sequence[ConsumerGroup], *, undo: bool) -> str:
    for group in groups:
        if pod == driver_name(group.head.key.name) and group.spec.job is not None:
            return f"pod {pod} is the driver of {group}: to restart it, use the command restart"
        slot = next((each for each in group.status.assignments if each.consumer == pod), None)
        if slot is not None and not planning.has_owners(group) and group.spec.job is None:
            return (
                f"{pod} is a member of {group}, which is balanced by message, so it has no queues: "
                "delete the pod, or scale its Deployment; it gives back what it has not begun"
            )
        if slot is not None:
            return (
                f"{pod} is a slot of {group}, not a pod; its pod is {slot.pod or 'not known yet'}"
            )
    names = {name for group in groups for name in find_readers(group)}
    if undo:
        names |= {name for group in groups for name in group.to_drain}
    shown = ", ".join(sorted(names)[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
    return f"no group in this namespace has a pod {pod}; the pods that read are: {shown or 'none'}"


def make_annotation(
    group: ConsumerGroup, pods: Iterable[str], gone: Collection[str], *, undo: bool
) -> str | None:
    """Return the new value of the annotation; None removes it."""
    before = group.to_drain - set(gone)
    after = before - set(pods) if undo else before | set(pods)
    return ",".join(sorted(after)) or None


def describe_effect(group: ConsumerGroup, pod: str, *, undo: bool) -> str:
    """Describe what happens to a pod."""
    found = find_readers(group).get(pod)
    if undo:
        return "it may get queues again" if found else "it no longer exists"
    if found is None:
        return "it reads no queues now"
    if group.spec.job is not None:
        queues = f" with its {_count_queues(found)}" if planning.has_owners(group) else ""
        return (
            f"executor {found.executor} ends after its batch, and a new one takes "
            f"{found.consumer}{queues}"
        )
    if find_readers(group).keys() <= group.to_drain | {pod}:
        return "now all consumers are drained, so they keep their queues until others join"
    return f"its {_count_queues(found)} go to other consumers, and it gets no new ones"


def _count_queues(assigned: Assigned) -> str:
    return words.count(sum(map(len, planning.read_owned(assigned))), "queue")


def is_done(group: ConsumerGroup, pods: Iterable[str], *, undo: bool) -> bool:
    """Whether the status shows that the pods are drained or, with `undo`, may get queues again."""
    found = find_readers(group)
    if group.spec.job is not None:
        return undo or not found.keys() & set(pods)
    these = [found[each] for each in pods if each in found]
    return all(each.draining != undo and (undo or not each.queues) for each in these)


def explain_delay(group: ConsumerGroup) -> str:
    """Explain from the group's status why its pods are not drained yet."""
    drained = conditions.find(group.status.conditions, ConditionType.DRAINED)
    if drained is None or drained.holds:
        return requests.explain_delay(group)
    return drained.message
