"""Finds objects that would do the same at the brokers: the older one wins. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from evenkeel.control import places
from evenkeel.control.seen import Conflict
from evenkeel.objects import Group, Key, Topic

Topics = Mapping[Key, Topic]
Value = TypeVar("Value", Group, Topic)


class Claim(NamedTuple):
    """What an object lays claim to."""

    name: str
    """The name that brokers know it by: only objects with the same one can be rivals."""
    about: object
    """What else decides whether two are rivals."""


class Rivals(Generic[Value]):
    """All objects of a kind, by the name that brokers know them by."""

    def __init__(self, claim: Callable[[Value], Claim | None]) -> None:
        """Know of nobody yet."""
        self._claim: Callable[[Value], Claim | None] = claim
        self._by_name: dict[str, dict[Key, Value]] = defaultdict(dict)
        self._claims: dict[Key, Claim] = {}

    def changed(self, key: Key, found: Value | None) -> set[Key]:
        """Note an object, or that it is gone; the others that this may concern."""
        concerned: set[Key] = set()
        old, new = self._claims.pop(key, None), self._claim(found) if found is not None else None
        if old is not None:
            del self._by_name[old.name][key]
            if old != new:
                concerned |= set(self._by_name[old.name])
            if not self._by_name[old.name]:
                del self._by_name[old.name]
        if found is not None and new is not None:
            if old is None or old.name != new.name:
                concerned |= set(self._by_name[new.name])
            self._claims[key] = new
            self._by_name[new.name][key] = found
        return concerned - {key}

    def of(self, found: Value) -> list[Value]:
        """List the older objects of the same name, the oldest first."""
        claim = self._claim(found)
        same = self._by_name.get(claim.name, {}).values() if claim else ()
        return sorted(
            (each for each in same if each.head.age_order < found.head.age_order),
            key=lambda each: each.head.age_order,
        )


def group_claim(group: Group) -> Claim:
    """Say in whose name a group reads, and what."""
    return Claim(group.group, group.spec.topics)


def topic_claim(topic: Topic) -> Claim | None:
    """Say which topic is kept by this object; none if it is only read."""
    place = places.of_topic(topic)
    return Claim(place.topic, place) if topic.spec.provision else None


def group_conflict(group: Group, older: Iterable[Group], topics: Topics) -> Conflict | None:
    """Find the oldest group that reads one of the same topics in the same name."""
    ours = places.of_group(group, topics.get)
    for other in older:
        theirs = places.of_group(other, topics.get)
        shared = sorted({our.topic for our in ours for their in theirs if our.is_also(their)})
        if shared:
            return Conflict(
                "OlderGroup",
                f"{other} already reads {', '.join(shared)} as {group.group!r}; it is the older "
                "one: delete one of the two, or choose another spec.group",
            )
    return None


def topic_conflict(topic: Topic, older: Iterable[Topic]) -> Conflict | None:
    """Find the oldest object that keeps the same topic."""
    place = places.of_topic(topic)
    for other in older:
        theirs = places.of_topic(other)
        if place.is_also(theirs):
            return Conflict(
                "OlderTopic",
                f"{other} already provisions {topic.topic!r} on these name servers; it is the "
                "older one: delete one of the two, or remove spec.provision from one",
            )
    return None
