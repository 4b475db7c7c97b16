"""
The documents of an assignment: which slot of a job reads which queues.

The operator publishes the assignment in the status of a ConsumerGroup, or in slices: ConfigMaps
that the status names. The driver writes it to a file; without Kubernetes, another program writes
that file. Readers ignore unknown fields, which later versions may add, and do not check limits.
`lb_core.assignment` writes and parses ids such as "0-3,8".
"""

from collections.abc import Iterable, Mapping

import msgspec

from contract import names
from contract.kinds.groups import Assigned, GroupStatus


class QueueIds(msgspec.Struct, frozen=True):
    """Queues of one topic on one broker."""

    topic: str
    """Name of the topic in RocketMQ."""
    broker: str
    """Name of the broker, such as broker-a."""
    ids: str
    """Queue ids as ranges, such as 0-3,8."""


class Share(msgspec.Struct, frozen=True):
    """The queues that one consumer reads: the part of `Assigned` that readers need."""

    consumer: str
    queues: list[QueueIds] = []


class AssignmentFile(msgspec.Struct, frozen=True):
    """The whole file that a job follows."""

    epoch: int
    assignments: list[Share] = []
    drain: list[str] = []
    """Pods whose executors must be replaced; without Kubernetes, the ids of these executors."""


class PublishedAssignment(msgspec.Struct, frozen=True):
    """The part of a ConsumerGroup's status that readers need."""

    epoch: int = 0
    assignments: list[Share] = []
    slices: list[str] = []
    """ConfigMaps that hold the assignments if these are too long for the status."""


def make_file(status: GroupStatus, drain: Iterable[str]) -> AssignmentFile:
    """Make the file from a status that contains the assignments itself."""
    return AssignmentFile(
        status.epoch, [_make_share(each) for each in status.assignments], sorted(drain)
    )


def _make_share(assigned: Assigned) -> Share:
    queues = [QueueIds(each.topic, each.broker, each.ids) for each in assigned.queues]
    return Share(assigned.consumer, queues)


def list_drained(annotations: Mapping[str, str]) -> list[str]:
    """Read the names of the pods to drain."""
    return names.split_names(annotations.get(names.DRAIN, ""))


def read_slice(text: str) -> list[Share]:
    """Read the entry `names.SLICE` of a slice."""
    return msgspec.json.decode(text, type=list[Share])
