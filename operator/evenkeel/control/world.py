"""
The interface of the control loop to its world, which is a Kubernetes cluster or a file.

Reads come from memory, so they are fast. Writes go to the API server or the file.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from contract.kinds.groups import GroupStatus
from contract.kinds.topics import TopicStatus
from coordinator.sessions import HeldQueues
from evenkeel.control.brokers import ClusterAddress
from evenkeel.control.groups.group_status import Notice
from evenkeel.control.groups.member_slots import LiveMember
from evenkeel.control.jobs.states import DriverSeen
from evenkeel.objects import ConsumerGroup, Key, Topic
from lb_core.model import Member


class World(Protocol):
    """Objects, pods and drivers."""

    def find_topic(self, key: Key) -> Topic | None:
        """Find a topic; None if it does not exist."""

    def find_group(self, key: Key) -> ConsumerGroup | None:
        """Find a group; None if it does not exist."""

    def list_groups(self) -> Iterable[ConsumerGroup]:
        """List all groups."""

    def explain_unseen(self, namespace: str) -> str | None:
        """Explain why a namespace cannot be observed completely; None if it can."""

    def list_pods(self, group: ConsumerGroup) -> Sequence[Member] | None:
        """List the pods that `podSelector` selects, or the members; None if they are unknown."""

    def list_live(self, group: ConsumerGroup) -> Sequence[LiveMember] | None:
        """List the members that have a session; None while the sessions are unknown."""

    def list_client_ids(self, key: Key) -> frozenset[str] | None:
        """List the ids by which brokers may know a group's members; None if that is unknown."""

    def find_held(self, key: Key) -> HeldQueues | None:
        """Count the granted and waiting queues of a group with members; None if unknown."""

    def find_poppers(self, key: Key) -> frozenset[str] | None:
        """Find the members of a group that may pop messages; None if unknown."""

    def observe_driver(self, key: Key) -> DriverSeen:
        """Observe the driver of a group's job."""

    def compute_identity(self, group: ConsumerGroup) -> str:
        """Compute the fingerprint of the group's driver. A change restarts the driver."""

    async def find_cluster(self, topic: Topic) -> ClusterAddress:
        """Find the address and the credentials of a topic's cluster."""

    def refuse_unless_leading(self) -> None:
        """
        Raise if another replica may already be the leader.

        Brokers would accept the requests of both replicas.
        """

    async def write_topic(self, topic: Topic, status: TopicStatus) -> None:
        """Replace a topic's status, unless the object has changed in the meantime."""

    async def write_group(
        self, group: ConsumerGroup, status: GroupStatus, happened: Sequence[Notice]
    ) -> None:
        """Replace a group's status, unless the object has changed in the meantime."""

    async def start_driver(self, group: ConsumerGroup) -> None:
        """Start the driver of a group's job."""

    async def stop_driver(self, group: ConsumerGroup) -> None:
        """Tell the driver to end after its batch."""

    async def clear_driver(self, group: ConsumerGroup) -> None:
        """Remove a driver that has ended."""

    async def give_up_driver(self, group: ConsumerGroup) -> None:
        """Remove a driver whose state is unknown, if the driver can no longer be running."""
