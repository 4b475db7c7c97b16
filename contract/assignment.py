"""
The assignment as a job follows it: which slot reads which queues.

Operators publish it in the status of a ConsumerGroup, or in slices that the status names. A driver
writes what it hears to a file, and whoever runs a job without Kubernetes writes that file. Readers
take what later versions add: unknown fields are passed over, and limits are the writer's business.
How ids are written, as in "0-3,8", is `lb_core.assignment`'s business alone.
"""

from collections.abc import Iterable, Mapping

import msgspec

from contract import names
from contract.kinds.groups import Assigned, GroupStatus


class QueueIds(msgspec.Struct, frozen=True):
    """Queues of one topic on one broker."""

    topic: str
    broker: str
    ids: str


class Share(msgspec.Struct, frozen=True):
    """What one consumer reads. It is what readers need of `Assigned`."""

    consumer: str
    queues: list[QueueIds] = []


class AssignmentFile(msgspec.Struct, frozen=True):
    """The whole of the file that a job follows."""

    epoch: int
    assignments: list[Share] = []
    drain: list[str] = []
    """Pods whose executors must be replaced; where there are no pods, the executors' ids."""


class PublishedAssignment(msgspec.Struct, frozen=True):
    """What readers need of a ConsumerGroup's status."""

    epoch: int = 0
    assignments: list[Share] = []
    slices: list[str] = []
    """ConfigMaps that hold the assignments instead."""


def make_file(status: GroupStatus, drain: Iterable[str]) -> AssignmentFile:
    """Make the file from a status that has its assignments with it."""
    return AssignmentFile(
        status.epoch, [_make_share(each) for each in status.assignments], sorted(drain)
    )


def _make_share(assigned: Assigned) -> Share:
    queues = [QueueIds(each.topic, each.broker, each.ids) for each in assigned.queues]
    return Share(assigned.consumer, queues)


def list_drained(annotations: Mapping[str, str]) -> list[str]:
    """Read which pods must be emptied."""
    return names.split_names(annotations.get(names.DRAIN, ""))


def read_slice(text: str) -> list[Share]:
    """Read the entry `names.SLICE` of a slice."""
    return msgspec.json.decode(text, type=list[Share])
