"""Indexes the pod selectors of groups, to find the groups of a pod quickly."""

from collections import defaultdict
from collections.abc import Mapping

from evenkeel.objects import Key

Labels = Mapping[str, str]


class PodSelectors:
    """The pod selectors of all groups."""

    def __init__(self) -> None:
        """Begin without any selectors."""
        self._wanted: dict[Key, Labels] = {}
        self._filed: dict[tuple[str, tuple[str, str]], set[Key]] = defaultdict(set)
        """Groups by namespace and the first label of their selector."""

    def note(self, group: Key, wanted: Labels | None) -> None:
        """Store the selector of a group; None if the group selects no pods."""
        old = self._wanted.pop(group, None)
        if old is not None:
            place = group.namespace, min(old.items())
            self._filed[place].discard(group)
            if not self._filed[place]:
                del self._filed[place]
        if wanted is not None:
            self._wanted[group] = wanted
            self._filed[group.namespace, min(wanted.items())].add(group)

    def find_groups(self, namespace: str, labels: Labels) -> set[Key]:
        """Find the groups that select a pod with these labels."""
        filed = (self._filed.get((namespace, label), ()) for label in labels.items())
        return {
            group
            for groups in filed
            for group in groups
            if self._wanted[group].items() <= labels.items()
        }
