"""Where topics are: under which name, and at which name servers. Pure."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from evenkeel.objects import ConsumerGroup, Key, Topic

Find = Callable[[Key], Topic | None]


class TopicKey(NamedTuple):
    """A topic as RocketMQ knows it."""

    topic: str
    told_by: frozenset[str]
    """Addresses of name servers, or the object that says the route itself."""

    def is_also(self, other: "TopicKey") -> bool:
        """Whether both are one topic: a single shared address shows it."""
        return bool(self.shared_with(other))

    def shared_with(self, other: "TopicKey") -> frozenset[str]:
        """Find who tells of both; nobody where they are two topics."""
        return self.told_by & other.told_by if self.topic == other.topic else frozenset()


def of_topic(topic: Topic) -> TopicKey:
    """Tell where a topic is."""
    return TopicKey(topic.topic, frozenset(topic.spec.name_servers or [str(topic)]))


def of_group(group: ConsumerGroup, find: Find) -> list[TopicKey]:
    """Tell where all topics of a group are."""
    found = (find(key) for key in group.topic_keys)
    return [of_topic(topic) for topic in found if topic]


def readers(place: TopicKey, groups: Iterable[ConsumerGroup], find: Find) -> list[str]:
    """Name the groups that read a topic, as RocketMQ knows them."""
    found = {
        group.group
        for group in groups
        if any(place.is_also(other) for other in of_group(group, find))
    }
    return sorted(found)
