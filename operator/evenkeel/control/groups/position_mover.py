"""Moves the positions of groups at the brokers when their balance changes and nobody reads."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from evenkeel import planning
from evenkeel.control.brokers import Brokers
from evenkeel.control.gathering import gather
from evenkeel.control.groups import balance_change
from evenkeel.control.groups.surroundings import GroupSurroundings
from evenkeel.control.world import World
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic
from lb_core.model import QueueRange
from mq_client.errors import MqError
from mq_client.operations.balance import WAITING_PULL_SECONDS
from mq_client.values import MessageQueue

PULLS_WAIT = (
    "brokers with RocksDB may still have pulls that wait for a message; they end within "
    f"{WAITING_PULL_SECONDS:g} s"
)


@dataclass(slots=True)
class PositionMove:
    """What is known about the positions of a group whose balance changes, while nobody reads."""

    quiet_since: float
    """Since when nobody reads."""
    due: float = 0.0
    """When to try to move them."""
    ready_for: int | None = None
    """The generation of the spec for whose balance the positions are ready."""
    trouble: str | None = None
    """Why they are not ready yet."""

    def is_due(self, generation: int) -> bool:
        """Whether the positions must be moved now for the balance in this generation."""
        return self.ready_for != generation and time.monotonic() >= self.due


class PositionMover:
    """Moves positions, and remembers which are ready."""

    def __init__(self, world: World, brokers: Brokers) -> None:
        """Begin without any moves."""
        self._world = world
        self._brokers = brokers
        self._moves: dict[Key, PositionMove] = {}

    def forget(self, key: Key) -> None:
        """Forget a group that was deleted, or whose balance does not change."""
        self._moves.pop(key, None)

    def is_ready(self, group: ConsumerGroup) -> bool:
        """Whether the positions are ready for the balance in the spec."""
        found = self._moves.get(group.head.key)
        return found is not None and found.ready_for == group.head.generation

    def find_trouble(self, group: ConsumerGroup) -> str | None:
        """Find out why the positions of a group are not ready yet."""
        found = self._moves.get(group.head.key)
        return found.trouble if found is not None else None

    def begin(self, group: ConsumerGroup, seen: GroupSurroundings) -> PositionMove | None:
        """Begin or continue the move of a group. If somebody reads, forget it, and return None."""
        key = group.head.key
        if balance_change.explain_wait(group, seen) is not None:
            self.forget(key)
            return None
        return self._moves.setdefault(key, PositionMove(time.monotonic()))

    async def move(
        self,
        move: PositionMove,
        group: ConsumerGroup,
        seen: GroupSurroundings,
        topics: Sequence[Topic],
    ) -> bool:
        """Move the positions in these topics. Return whether the outcome has changed."""
        before = (move.ready_for, move.trouble)
        try:
            queues = planning.list_queues(group, seen.topics)
            moves = (self._move_topic(group, each, queues, move.quiet_since) for each in topics)
            are_moved = all(await gather(moves))
        except (MqError, ManifestError) as error:
            move.trouble = f"the positions at the brokers cannot be moved: {error}"
        else:
            move.ready_for = group.head.generation if are_moved else None
            move.trouble = None if are_moved else PULLS_WAIT
            move.due = 0.0 if are_moved else move.quiet_since + WAITING_PULL_SECONDS
        return (move.ready_for, move.trouble) != before

    async def _move_topic(
        self,
        group: ConsumerGroup,
        topic: Topic,
        queues: Sequence[QueueRange],
        quiet_since: float,
    ) -> bool:
        """Move the positions in a topic. Return False if that is too early."""
        its = [
            MessageQueue(each.topic, each.broker, number)
            for each in queues
            if each.topic == topic.topic
            for number in range(each.start, each.stop)
        ]

        def refuse() -> None:
            self._world.refuse_unless_leading()
            now = self._world.find_group(group.head.key)
            if now is None or now.head.generation != group.head.generation:
                raise ManifestError(f"{group}: its spec has changed")

        cluster = await self._world.find_cluster(topic)
        quiet_seconds = time.monotonic() - quiet_since
        return await self._brokers.move_positions(
            cluster, group.group, its, quiet_seconds, refuse,
            had_owners=planning.had_owners(group), has_owners=planning.has_owners(group),
        )  # fmt: skip
