"""Defines how many objects there are, and names them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from evenkeel.objects import Key

GROUPS_A_TOPIC = 10


@dataclass(frozen=True, slots=True)
class Size:
    """One cluster full of objects."""

    groups: int
    pods: int
    """How many pods each group has."""
    brokers: int = 4
    queues: int = 16
    """How many queues a topic has on each broker."""
    namespaces: int = 10
    are_members: bool = False
    """Whether the pods ask the coordinator for their queues."""

    def __str__(self) -> str:
        """Name the size in a table."""
        groups = f"{self.groups:,} groups" if self.groups > 1 else "1 group"
        return f"{groups} x {self.pods:,} {'members' if self.are_members else 'pods'}"

    @property
    def topics(self) -> int:
        """How many topics all groups share."""
        return -(-self.groups // GROUPS_A_TOPIC)

    @property
    def all_queues(self) -> int:
        """How many queues a topic has."""
        return self.brokers * self.queues

    def list_spaces(self) -> list[str]:
        """Name all namespaces."""
        return [f"team-{number}" for number in range(self.namespaces)]

    def topic_keys(self) -> list[Key]:
        """Name all topics."""
        return [self._key("topic", number) for number in range(self.topics)]

    def group_keys(self) -> list[Key]:
        """Name all groups."""
        return [self._key("group", number) for number in range(self.groups)]

    def topic_of(self, group: Key) -> str:
        """Name the topic that a group reads; it is in the group's namespace."""
        number = int(group.name.rpartition("-")[2])
        return self._key("topic", number % self.topics).name

    def list_pods(self, group: Key) -> Iterator[Key]:
        """Name the pods of a group."""
        for number in range(self.pods):
            yield Key(group.namespace, f"{group.name}-{number:03}")

    def _key(self, kind: str, number: int) -> Key:
        return Key(f"team-{number % self.namespaces}", f"{kind}-{number:04}")


SMALL = Size(100, 10)
MIDDLE = Size(1000, 10)
LARGE = Size(3000, 3)
MANY = (SMALL, MIDDLE, LARGE)
MEMBERS = Size(100, 20, are_members=True)
ONE = Size(1, 1000, brokers=10, queues=1000, namespaces=1)
