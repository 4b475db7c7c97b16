"""
Finds objects that would do the same at the brokers: the one that began first wins. Pure.

What an object was given is written in its status, as its claims. Objects whose specs come to name
the same later wait, however old they are. Where no claim is written yet, the older one wins.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from contract.conditions import ConditionReason
from contract.kinds.groups import TopicClaim
from evenkeel.control.conflicts import Conflict
from evenkeel.control.topics import topic_keys
from evenkeel.control.topics.topic_keys import TopicKey
from evenkeel.objects import ConsumerGroup, Key, Topic

Topics = Mapping[Key, Topic]
Value = TypeVar("Value", ConsumerGroup, Topic)


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
        """List the other objects of the same name, the oldest first."""
        claim = self._claim(found)
        same = self._by_name.get(claim.name, {}) if claim else {}
        return sorted(
            (each for key, each in same.items() if key != found.head.key),
            key=lambda each: each.head.age_order,
        )


def group_claim(group: ConsumerGroup) -> Claim:
    """Say in whose name a group reads, and what."""
    return Claim(group.group, (group.spec.topics, group.status.claims))


def topic_claim(topic: Topic) -> Claim | None:
    """Say which topic is kept by this object; none if it is only read."""
    place = topic_keys.of_topic(topic)
    return Claim(place.topic, (place, topic.status.claims)) if topic.spec.provision else None


def group_conflict(
    group: ConsumerGroup, others: Iterable[ConsumerGroup], topics: Topics
) -> Conflict | None:
    """Find another group that reads one of the same topics in the same name, and was first."""
    ours = topic_keys.of_group(group, topics.get)
    for other in others:
        theirs = topic_keys.of_group(other, topics.get)
        shared = sorted(
            {
                our.topic
                for our in ours
                for their in theirs
                if our.is_also(their) and _is_first(other, group, our.shared_with(their), our.topic)
            }
        )
        if shared:
            return Conflict(
                ConditionReason.OLDER_GROUP,
                f"{other} already reads {', '.join(shared)} as {group.group!r}, and was first: "
                "delete one of the two, or choose another spec.group",
            )
    return None


def topic_conflict(topic: Topic, others: Iterable[Topic]) -> Conflict | None:
    """Find another object that keeps the same topic, and was first."""
    place = topic_keys.of_topic(topic)
    for other in others:
        shared = place.shared_with(topic_keys.of_topic(other))
        if shared and _is_first(other, topic, shared, place.topic):
            return Conflict(
                ConditionReason.OLDER_TOPIC,
                f"{other} already provisions {topic.topic!r} on these name servers, and was "
                "first: delete one of the two, or remove spec.provision from one",
            )
    return None


def group_claims(group: ConsumerGroup, rival: Conflict | None, topics: Topics) -> list[TopicClaim]:
    """Say which topics are this group's. While others are in its way it gets no more of them."""
    before = {each.name: each for each in group.status.claims}
    found = []
    for key in group.topic_keys:
        topic, kept = topics.get(key), before.get(key.name)
        if topic is not None:
            place = topic_keys.of_topic(topic)
            told_by = _claimed(place, [_place(kept)] if kept else [], rival)
            kept = TopicClaim(key.name, place.topic, told_by) if told_by else None
        if kept is not None:  # a Topic that is missing for a while is not given away
            found.append(kept)
    return found


def topic_claims(topic: Topic, rival: Conflict | None) -> list[str]:
    """Say at which name servers it is this object that keeps the topic."""
    if topic.spec.provision is None:
        return []
    return _claimed(topic_keys.of_topic(topic), _held(topic), rival)


def _claimed(place: TopicKey, held: Iterable[TopicKey], rival: Conflict | None) -> list[str]:
    if rival is None:
        return sorted(place.told_by)
    return sorted({name for each in held for name in place.shared_with(each)})


def _is_first(one: Value, other: Value, shared: frozenset[str], topic: str) -> bool:
    """Whether the first of two that share a place has the better claim to it."""
    place = TopicKey(topic, shared)
    has_one, has_other = (any(place.is_also(it) for it in _held(each)) for each in (one, other))
    return has_one if has_one != has_other else one.head.age_order < other.head.age_order


def _held(found: ConsumerGroup | Topic) -> list[TopicKey]:
    if isinstance(found, Topic):
        return [TopicKey(found.topic, frozenset(found.status.claims))]
    return [_place(each) for each in found.status.claims]


def _place(claim: TopicClaim) -> TopicKey:
    return TopicKey(claim.topic, frozenset(claim.told_by))
