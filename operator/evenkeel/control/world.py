"""
What the loop needs of the world around it. Kubernetes is one such world, a file the other.

Reading is from what the world has already heard, so it costs nothing; writing is to the real thing.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from evenkeel.api.groups import GroupStatus
from evenkeel.api.topics import TopicStatus
from evenkeel.control.brokers import Cluster
from evenkeel.control.groups import Happened
from evenkeel.control.seen import JobSeen
from evenkeel.objects import Group, Key, Topic
from lb_core.model import Member


class World(Protocol):
    """Objects, pods and jobs."""

    def topic(self, key: Key) -> Topic | None:
        """Find a topic; None if it is gone."""

    def group(self, key: Key) -> Group | None:
        """Find a group; None if it is gone."""

    def groups(self) -> Iterable[Group]:
        """List all groups."""

    def pods(self, group: Group) -> Sequence[Member] | None:
        """List the pods that `podSelector` selects; None while they cannot be seen."""

    def job(self, key: Key) -> JobSeen | None:
        """Tell how a group's job is."""

    async def cluster(self, topic: Topic) -> Cluster:
        """Tell how to reach a topic's cluster, credentials included."""

    async def write_topic(self, topic: Topic, status: TopicStatus) -> None:
        """Replace a topic's status, unless the object has changed meanwhile."""

    async def write_group(
        self, group: Group, status: GroupStatus, happened: Sequence[Happened]
    ) -> None:
        """Replace a group's status, unless the object has changed meanwhile."""

    async def keep_job(self, group: Group, *, wanted: bool) -> None:
        """Let a group's job run as its spec and status say, or end after its batch."""
