"""
Finds objects that would do the same work at the brokers, and decides which of them may do it. Pure.

The claims of an object are in its status. The first object to claim a topic wins. An object that
names the topic later must wait, even if it is older. If neither object has a claim yet, the older
one wins.
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
    """The things at the brokers that an object claims."""

    name: str
    """The name in RocketMQ. Only objects with the same name can be rivals."""
    about: object
    """Everything else that decides whether two objects are rivals."""


class Rivals(Generic[Value]):
    """All objects of a kind, by their name in RocketMQ."""

    def __init__(self, claim: Callable[[Value], Claim | None]) -> None:
        """Begin without any objects."""
        self._claim: Callable[[Value], Claim | None] = claim
        self._by_name: dict[str, dict[Key, Value]] = defaultdict(dict)
        self._claims: dict[Key, Claim] = {}

    def note_change(self, key: Key, found: Value | None) -> set[Key]:
        """Note a change or deletion of an object. Return the other objects that it may affect."""
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

    def list_others(self, found: Value) -> list[Value]:
        """List the other objects with the same name, oldest first."""
        claim = self._claim(found)
        same = self._by_name.get(claim.name, {}) if claim else {}
        return sorted(
            (each for key, each in same.items() if key != found.head.key),
            key=lambda each: each.head.age_order,
        )


def build_group_claim(group: ConsumerGroup) -> Claim:
    """Build the claim of a group: its name in RocketMQ and its topics."""
    return Claim(group.group, (group.spec.topics, group.status.claims))


def build_topic_claim(topic: Topic) -> Claim | None:
    """Build the claim of an object that provisions a topic; None if it only reads the route."""
    place = topic_keys.build_key(topic)
    return Claim(place.topic, (place, topic.status.claims)) if topic.spec.provision else None


def find_group_conflict(
    group: ConsumerGroup, others: Iterable[ConsumerGroup], topics: Topics
) -> Conflict | None:
    """Find another group that reads a topic under the same RocketMQ name and was first."""
    ours = topic_keys.list_keys(group, topics.get)
    for other in others:
        theirs = topic_keys.list_keys(other, topics.get)
        shared = sorted(
            {
                our.topic
                for our in ours
                for their in theirs
                if our.is_also(their) and _is_first(other, group, our.find_shared(their), our.topic)
            }
        )
        if shared:
            return Conflict(
                ConditionReason.OLDER_GROUP,
                f"{other} already reads {', '.join(shared)} as {group.group!r} and was first: "
                "delete one of the two, or choose another spec.group",
            )
    return None


def find_topic_conflict(topic: Topic, others: Iterable[Topic]) -> Conflict | None:
    """Find another object that provisions the same topic, and was first."""
    place = topic_keys.build_key(topic)
    for other in others:
        shared = place.find_shared(topic_keys.build_key(other))
        if shared and _is_first(other, topic, shared, place.topic):
            return Conflict(
                ConditionReason.OLDER_TOPIC,
                f"{other} already provisions {topic.topic!r} on these name servers, and was "
                "first: delete one of the two, or remove spec.provision from one",
            )
    return None


def update_group_claims(
    group: ConsumerGroup, rival: Conflict | None, topics: Topics
) -> list[TopicClaim]:
    """List the topics that a group claims. While it has a rival, it gets no new claims."""
    before = {each.name: each for each in group.status.claims}
    found = []
    for key in group.topic_keys:
        topic, kept = topics.get(key), before.get(key.name)
        if topic is not None:
            place = topic_keys.build_key(topic)
            told_by = _claim(place, [_read_key(kept)] if kept else [], rival)
            kept = TopicClaim(key.name, place.topic, told_by) if told_by else None
        if kept is not None:  # a claim is kept while the Topic object is missing
            found.append(kept)
    return found


def update_topic_claims(topic: Topic, rival: Conflict | None) -> list[str]:
    """List the name servers at which this object claims its topic."""
    if topic.spec.provision is None:
        return []
    return _claim(topic_keys.build_key(topic), _list_held(topic), rival)


def _claim(place: TopicKey, held: Iterable[TopicKey], rival: Conflict | None) -> list[str]:
    if rival is None:
        return sorted(place.told_by)
    return sorted({name for each in held for name in place.find_shared(each)})


def _is_first(one: Value, other: Value, shared: frozenset[str], topic: str) -> bool:
    """Whether `one` has a better claim to a shared topic than `other`."""
    place = TopicKey(topic, shared)
    has_one, has_other = (
        any(place.is_also(it) for it in _list_held(each)) for each in (one, other)
    )
    return has_one if has_one != has_other else one.head.age_order < other.head.age_order


def _list_held(found: ConsumerGroup | Topic) -> list[TopicKey]:
    if isinstance(found, Topic):
        return [TopicKey(found.topic, frozenset(found.status.claims))]
    return [_read_key(each) for each in found.status.claims]


def _read_key(claim: TopicClaim) -> TopicKey:
    return TopicKey(claim.topic, frozenset(claim.told_by))
