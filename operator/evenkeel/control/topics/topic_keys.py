"""Identifies topics across clusters by their name and name servers. Pure."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from evenkeel.objects import ConsumerGroup, Key, Topic

Find = Callable[[Key], Topic | None]


class TopicKey(NamedTuple):
    """A topic in RocketMQ."""

    topic: str
    told_by: frozenset[str]
    """The addresses of its name servers, or the object whose spec contains its route."""

    def is_also(self, other: "TopicKey") -> bool:
        """Whether both are the same topic. One shared address is enough."""
        return bool(self.find_shared(other))

    def find_shared(self, other: "TopicKey") -> frozenset[str]:
        """Find the shared name servers; empty if the topics differ."""
        return self.told_by & other.told_by if self.topic == other.topic else frozenset()


def build_key(topic: Topic) -> TopicKey:
    """Make the key of a topic."""
    return TopicKey(topic.topic, frozenset(topic.spec.name_servers or [str(topic)]))


def list_keys(group: ConsumerGroup, find: Find) -> list[TopicKey]:
    """List the keys of all topics of a group."""
    found = (find(key) for key in group.topic_keys)
    return [build_key(topic) for topic in found if topic]


def list_readers(place: TopicKey, groups: Iterable[ConsumerGroup], find: Find) -> list[str]:
    """List the RocketMQ groups that read a topic."""
    found = {
        group.group
        for group in groups
        if any(place.is_also(other) for other in list_keys(group, find))
    }
    return sorted(found)
