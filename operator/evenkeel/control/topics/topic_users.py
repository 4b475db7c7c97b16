"""Indexes which groups name a topic, so that groups are reconciled when a topic changes."""

from collections.abc import Collection

from evenkeel.objects import Key


class TopicUsers:
    """The groups that name each topic."""

    def __init__(self) -> None:
        """Begin without any groups."""
        self._topics: dict[Key, frozenset[Key]] = {}
        """The topics of each group."""
        self._groups: dict[Key, set[Key]] = {}
        """The groups of each topic. The topic itself need not exist."""

    def note(self, group: Key, topics: Collection[Key]) -> None:
        """Note which topics a group names. A deleted group names no topics."""
        new = frozenset(topics)
        old = self._topics.pop(group, frozenset())
        if new:
            self._topics[group] = new
        for topic in new:
            self._groups.setdefault(topic, set()).add(group)
        for topic in old - new:
            self._groups[topic].discard(group)
            if not self._groups[topic]:
                del self._groups[topic]

    def list_groups(self, topic: Key) -> list[Key]:
        """List the groups that name a topic."""
        return list(self._groups.get(topic, ()))
