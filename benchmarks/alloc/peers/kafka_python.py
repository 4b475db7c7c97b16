"""
Plays a script on kafka-python's cooperative sticky assignor, as a group's leader calls it.

Only the first round is timed. After it, queues that move have no owner, so a second round, which is
not timed, gives them their new owners.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from benchmarks.alloc import player, scenarios

_NO_GENERATION = -1
_GENERATION = 7
_SUBSCRIPTION_VERSION = 3

Owned = Mapping[str, list[tuple[str, list[int]]]]
"""The topics of each member, with their partitions."""


@dataclass(frozen=True, slots=True)
class _Cluster:
    """Answers the two questions that the assignor asks about the cluster."""

    partitions: Mapping[str, frozenset[int]]

    def topics(self) -> set[str]:
        return set(self.partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        found = self.partitions.get(topic)
        return None if found is None else set(found)


class KafkaPython(player.Planner[Owned]):
    """Plans a whole group with the assignor."""

    def prepare(self, group: player.Group, previous: Owned | None) -> Callable[[], Owned]:
        """Build the cluster's metadata and one subscription per member."""
        names = [scenarios.topic_name(index) for index in range(len(group.queues))]
        cluster = _Cluster(
            {name: frozenset(range(n)) for name, n in zip(names, group.queues, strict=True)}
        )
        members = [_make_subscription(member, names, previous) for member in group.members]
        assignor = CooperativeStickyAssignor()

        def plan() -> Owned:
            result = assignor.assign(cluster, members)
            return {member: _read_owned(assignment) for member, assignment in result.items()}

        return plan

    def settle(self, group: player.Group, result: Owned) -> Owned:
        """Run the second round."""
        return self.prepare(group, result)()

    def count_facts(
        self, group: player.Group, previous: Owned | None, result: Owned
    ) -> player.Facts:
        """Compare owner by owner."""
        before, after = _map_owners(previous or {}), _map_owners(result)
        moved = sum(after.get(queue) != owner for queue, owner in before.items())
        loads = {member: sum(len(ids) for _, ids in own) for member, own in result.items()}
        return player.Facts(moved, *player.find_loads(group.members, loads))


def _make_subscription(member: str, topics: list[str], previous: Owned | None) -> SimpleNamespace:
    owned = (previous or {}).get(member)
    subscription = ConsumerProtocolSubscription(
        version=_SUBSCRIPTION_VERSION,
        topics=topics,
        user_data=b"",
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in owned or []
        ],
        generation_id=_NO_GENERATION if owned is None else _GENERATION,
    )
    return SimpleNamespace(member_id=member, group_instance_id=None, metadata=subscription)


def _read_owned(assignment: Any) -> list[tuple[str, list[int]]]:
    return [(topic, partitions) for topic, partitions in assignment.assigned_partitions]


def _map_owners(owned: Owned) -> dict[tuple[str, int], str]:
    return {
        (topic, partition): member
        for member, topics in owned.items()
        for topic, partitions in topics
        for partition in partitions
    }


if __name__ == "__main__":
    player.main(KafkaPython())
