"""
What the loop needs of the world around it. Kubernetes is one such world, a file the other.

Reading is from what the world has already heard, so it costs nothing; writing is to the real thing.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from contract.kinds.groups import GroupStatus
from contract.kinds.topics import TopicStatus
from evenkeel.control.brokers import ClusterAddress
from evenkeel.control.groups.group_status import Happened
from evenkeel.control.jobs.states import DriverSeen
from evenkeel.objects import ConsumerGroup, Key, Topic
from lb_core.model import Member


class World(Protocol):
    """Objects, pods and jobs."""

    def topic(self, key: Key) -> Topic | None:
        """Find a topic; None if it is gone."""

    def group(self, key: Key) -> ConsumerGroup | None:
        """Find a group; None if it is gone."""

    def groups(self) -> Iterable[ConsumerGroup]:
        """List all groups."""

    def unseen(self, namespace: str) -> str | None:
        """Say why what is in a namespace cannot be seen as a whole; None if it can."""

    def pods(self, group: ConsumerGroup) -> Sequence[Member] | None:
        """List the pods that `podSelector` selects; None while they cannot be seen."""

    def driver(self, key: Key) -> DriverSeen:
        """Tell how the driver of a group's job is."""

    def identity(self, group: ConsumerGroup) -> str:
        """Tell as what a group's driver is to run: another text means that it starts anew."""

    async def cluster(self, topic: Topic) -> ClusterAddress:
        """Tell how to reach a topic's cluster, credentials included."""

    def refuse_unless_leading(self) -> None:
        """Raise if somebody else may lead by now: asked before what nothing else would refuse."""

    async def write_topic(self, topic: Topic, status: TopicStatus) -> None:
        """Replace a topic's status, unless the object has changed meanwhile."""

    async def write_group(
        self, group: ConsumerGroup, status: GroupStatus, happened: Sequence[Happened]
    ) -> None:
        """Replace a group's status, unless the object has changed meanwhile."""

    async def start_driver(self, group: ConsumerGroup) -> None:
        """Start the driver of a group's job."""

    async def stop_driver(self, group: ConsumerGroup) -> None:
        """Let the driver end after its batch."""

    async def clear_driver(self, group: ConsumerGroup) -> None:
        """Clear away a driver that has ended."""

    async def give_up_driver(self, group: ConsumerGroup) -> None:
        """Clear away a driver that nobody tells of, if nothing of it can run any more."""
