"""Finds groups that would read in each other's name: the older one wins. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from evenkeel.control.seen import Conflict
from evenkeel.objects import Group, Key, Topic

Topics = Mapping[Key, Topic]


class Rivals:
    """All groups, by the name that brokers know them by."""

    def __init__(self) -> None:
        """Know of nobody yet."""
        self._by_name: dict[str, dict[Key, Group]] = defaultdict(dict)
        self._names: dict[Key, str] = {}

    def changed(self, key: Key, group: Group | None) -> set[Key]:
        """Note a group, or that it is gone; the others that this may concern."""
        concerned: set[Key] = set()
        old = self._names.pop(key, None)
        if old is not None:
            before = self._by_name[old].pop(key)
            if group is None or group.group != old or group.spec.topics != before.spec.topics:
                concerned |= set(self._by_name[old])
            if not self._by_name[old]:
                del self._by_name[old]
        if group is not None:
            self._names[key] = group.group
            if old != group.group:
                concerned |= set(self._by_name[group.group])
            self._by_name[group.group][key] = group
        return concerned - {key}

    def of(self, group: Group) -> Iterable[Group]:
        """List the groups of the same name that are older."""
        same = self._by_name.get(group.group, {}).values()
        return sorted(
            (each for each in same if each.head.age_order < group.head.age_order),
            key=lambda each: each.head.age_order,
        )


def conflict(group: Group, older: Iterable[Group], topics: Topics) -> Conflict | None:
    """Find the oldest group that reads one of the same topics in the same name."""
    ours = _places(group, topics)
    for other in older:
        shared = sorted(
            topic for topic, servers in ours if _overlap((topic, servers), other, topics)
        )
        if shared:
            return Conflict(
                "OlderGroup",
                f"{other} already reads {', '.join(shared)} as {group.group!r}; it is the older "
                "one: delete one of the two, or choose another spec.group",
            )
    return None


def _places(group: Group, topics: Topics) -> list[tuple[str, frozenset[str]]]:
    """Name what a group reads; topics that are only in a file are nobody else's."""
    found = (topics.get(key) for key in group.topic_keys)
    return [
        (each.topic, frozenset(each.spec.name_servers))
        for each in found
        if each and each.spec.name_servers
    ]


def _overlap(place: tuple[str, frozenset[str]], other: Group, topics: Topics) -> bool:
    topic, servers = place
    return any(topic == name and servers & theirs for name, theirs in _places(other, topics))
