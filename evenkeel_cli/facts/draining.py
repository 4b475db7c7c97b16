"""Which pods of which groups are to be emptied, and whether they are. Pure."""

from collections.abc import Collection, Iterable, Sequence

from contract.kinds.groups import Assigned
from contract.names import driver as driver_name
from evenkeel import planning
from evenkeel.control import conditions
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup
from evenkeel_cli.facts import requests, words

MOST_NAMED = 20


def readers(group: ConsumerGroup) -> dict[str, Assigned]:
    """Find the pods that read, and what each of them does; a list names its consumers itself."""
    found = group.status.assignments
    if group.spec.job is None:
        return {each.consumer: each for each in found}
    return {each.pod: each for each in found if each.pod and not each.empty_since}


def sorted_out(
    groups: Sequence[ConsumerGroup], pods: Sequence[str], *, undo: bool
) -> list[tuple[ConsumerGroup, list[str]]]:
    """Find the groups that have these pods; all of them must be known."""
    found = [(group, [each for each in pods if _has(group, each, undo=undo)]) for group in groups]
    known = {each for _, some in found for each in some}
    for each in pods:
        if each not in known:
            raise EvenkeelError(_unknown(each, groups, undo=undo))
    return [(group, some) for group, some in found if some]


def _has(group: ConsumerGroup, pod: str, *, undo: bool) -> bool:
    return pod in readers(group) or (undo and pod in group.to_drain)


def _unknown(pod: str, groups: Sequence[ConsumerGroup], *, undo: bool) -> str:
    for group in groups:
        if pod == driver_name(group.head.key.name) and group.spec.job is not None:
            return f"pod {pod} is the driver of {group}: restart starts it anew"
        slot = next((each for each in group.status.assignments if each.consumer == pod), None)
        if slot is not None:
            return f"{pod} is a slot of {group} and no pod; it is filled by {slot.pod or 'nobody'}"
    names = {name for group in groups for name in readers(group)}
    if undo:
        names |= {name for group in groups for name in group.to_drain}
    shown = ", ".join(sorted(names)[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
    return f"no group of this namespace has a pod {pod}; those that read are: {shown or 'none'}"


def annotation(
    group: ConsumerGroup, pods: Iterable[str], gone: Collection[str], *, undo: bool
) -> str | None:
    """Write down who is to be emptied now; None: nobody."""
    before = group.to_drain - set(gone)
    after = before - set(pods) if undo else before | set(pods)
    return ",".join(sorted(after)) or None


def follows(group: ConsumerGroup, pod: str, *, undo: bool) -> str:
    """Say what becomes of a pod."""
    found = readers(group).get(pod)
    if undo:
        return "it may have queues again" if found else "it is there no more"
    if found is None:
        return "it does not read now"
    if group.spec.job is not None:
        return (
            f"executor {found.executor} ends after its batch, and a new one takes "
            f"{found.consumer} with its {_queues(found)}"
        )
    if readers(group).keys() <= group.to_drain | {pod}:
        return "all consumers are to be emptied then, so they keep their queues: let others come"
    return f"its {_queues(found)} go to others, and it gets no new ones"


def _queues(assigned: Assigned) -> str:
    return words.counted(sum(map(len, planning.owned(assigned))), "queue")


def is_done(group: ConsumerGroup, pods: Iterable[str], *, undo: bool) -> bool:
    """Whether the operator shows that they are emptied, or may have queues again."""
    found = readers(group)
    if group.spec.job is not None:
        return undo or not found.keys() & set(pods)
    these = [found[each] for each in pods if each in found]
    return all(each.draining != undo and (undo or not each.queues) for each in these)


def why_not(group: ConsumerGroup) -> str:
    """Say what a group's status says of why its pods are not emptied."""
    drained = conditions.find(group.status.conditions, "Drained")
    if drained is None or drained.holds:
        return requests.why_not(group)
    return drained.message
