"""Which groups look for which labels, so that a pod finds its groups and not they it."""

from collections import defaultdict
from collections.abc import Mapping

from evenkeel.objects import Key

Labels = Mapping[str, str]


class Selectors:
    """All that groups look for."""

    def __init__(self) -> None:
        """Nobody looks for anything yet."""
        self._wanted: dict[Key, Labels] = {}
        self._filed: dict[tuple[str, tuple[str, str]], set[Key]] = defaultdict(set)
        """By namespace and one of the labels, which a pod must have as well."""

    def note(self, group: Key, wanted: Labels | None) -> None:
        """Note which labels a group looks for; None: for no pods."""
        old = self._wanted.pop(group, None)
        if old is not None:
            place = group.namespace, min(old.items())
            self._filed[place].discard(group)
            if not self._filed[place]:
                del self._filed[place]
        if wanted is not None:
            self._wanted[group] = wanted
            self._filed[group.namespace, min(wanted.items())].add(group)

    def looking_for(self, namespace: str, labels: Labels) -> set[Key]:
        """Find the groups that look for a pod with these labels."""
        filed = (self._filed.get((namespace, label), ()) for label in labels.items())
        return {
            group
            for groups in filed
            for group in groups
            if self._wanted[group].items() <= labels.items()
        }
