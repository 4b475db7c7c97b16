"""Admits pods by their tokens. The path of a request must name the token's pod."""

from collections.abc import Callable

from contract.following import Denial
from evenkeel.cluster.members.token_reviews import PodIdentity, TokenReviews
from evenkeel.cluster.watch.pods import Pod
from evenkeel.members.doors import DeniedError
from evenkeel.objects import ConsumerGroup, Key


class PodDoor:
    """Admits the pods that a group selects, each under its own name."""

    def __init__(
        self,
        reviews: TokenReviews,
        find_group: Callable[[Key], ConsumerGroup | None],
        find_pod: Callable[[Key], Pod | None],
    ) -> None:
        """Store the functions that find groups and pods in the operator's cache."""
        self._reviews = reviews
        self._find_group = find_group
        self._find_pod = find_pod

    async def admit(self, token: str, key: Key, member: str) -> None:
        """Raise `DeniedError` unless the group selects pod `member` and the token belongs to it."""
        who = await self._reviews.identify(token)
        refuse_others(who, key, member)
        refuse_unselected(who, self._find_group(key), self._find_pod(Key(who.namespace, who.pod)))


def refuse_others(who: PodIdentity, key: Key, member: str) -> None:
    """Refuse a path that does not name the token's pod."""
    if who.namespace != key.namespace:
        raise DeniedError(
            Denial.ANOTHER_NAMESPACE,
            f"the token belongs to a pod in namespace {who.namespace}, but the group is in "
            f"namespace {key.namespace}",
        )
    if who.pod != member:
        raise DeniedError(
            Denial.ANOTHER_POD, f"the token belongs to pod {who.pod}, not to {member}"
        )


def refuse_unselected(who: PodIdentity, group: ConsumerGroup | None, pod: Pod | None) -> None:
    """Refuse a pod that the group does not select. A missing group is refused later."""
    consumers = group.spec.consumers if group is not None else None
    if consumers is None or consumers.members is None:
        return
    if pod is None or pod.uid != who.uid:
        raise DeniedError(Denial.POD_UNSEEN, f"the operator has not seen pod {who.pod} yet")
    if pod.has_ended:
        raise DeniedError(Denial.POD_UNSEEN, f"pod {who.pod} has ended")
    selector = consumers.members.selector
    if selector is None:
        raise DeniedError(
            Denial.NOT_SELECTED, f"{group} selects no pods: set spec.consumers.members.selector"
        )
    missing = selector.match_labels.items() - pod.labels.items()
    if missing:
        shown = ", ".join(f"{name}={value}" for name, value in sorted(missing))
        raise DeniedError(
            Denial.NOT_SELECTED,
            f"{group} does not select pod {who.pod}, because the pod lacks the labels {shown}",
        )
