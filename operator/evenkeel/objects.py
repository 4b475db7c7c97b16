"""The two kinds of objects as the service holds them, wherever they are kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from contract import assignment
from contract.kinds.groups import GroupSpec, GroupStatus
from contract.kinds.topics import TopicSpec, TopicStatus
from contract.names import REBALANCE

DEFAULT_NAMESPACE = "default"


class Key(NamedTuple):
    """Which object of a kind."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Say it as briefly as kubectl takes it."""
        return self.name if self.namespace == DEFAULT_NAMESPACE else f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Head:
    """What both kinds have in common."""

    key: Key
    generation: int = 0
    """Grows with each change of the spec."""
    version: str = ""
    """Changes with every change."""
    created: str = ""
    uid: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_going: bool = False
    """Whether it is being deleted, and only waits for what others do before."""

    @property
    def age_order(self) -> tuple[str, Key]:
        """Sort the oldest first."""
        return self.created, self.key

    @property
    def origin(self) -> str:
        """Tell this object from all others, in other clusters too; of two the lower is older."""
        return f"{self.created}/{self.uid}"


@dataclass(frozen=True, slots=True)
class Topic:
    """A `Topic` object."""

    KIND: ClassVar = "Topic"

    head: Head
    spec: TopicSpec
    status: TopicStatus

    @property
    def topic(self) -> str:
        """RocketMQ's name of it."""
        return self.spec.topic or self.head.key.name

    def __str__(self) -> str:
        """Name it in a message."""
        return f"{self.KIND} {self.head.key}"


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A `ConsumerGroup` object."""

    KIND: ClassVar = "ConsumerGroup"

    head: Head
    spec: GroupSpec
    status: GroupStatus

    @property
    def group(self) -> str:
        """RocketMQ's name of it."""
        return self.spec.group or self.head.key.name

    def beside(self, name: str) -> Key:
        """Find an object that the spec names: it is in the same namespace."""
        return Key(self.head.key.namespace, name)

    @property
    def topic_keys(self) -> list[Key]:
        """All topics that the spec names."""
        return [self.beside(each.name) for each in self.spec.topics]

    @property
    def rebalance_asked(self) -> str:
        """Tell what asks for a plan at once that was not made yet; empty if nothing does."""
        asked = self.head.annotations.get(REBALANCE, "")
        return "" if asked == self.status.rebalanced_for else asked

    @property
    def to_drain(self) -> frozenset[str]:
        """Name the pods that are to be emptied, as asked by hand; some may be gone already."""
        return frozenset(assignment.list_drained(self.head.annotations))

    def slot(self, number: int) -> str:
        """Name a slot of its job."""
        return f"{self.group}-{number}"

    def __str__(self) -> str:
        """Name it in a message."""
        return f"{self.KIND} {self.head.key}"


def head(metadata: Mapping[str, Any]) -> Head:
    """Read an object's metadata."""
    return Head(
        Key(str(metadata.get("namespace") or DEFAULT_NAMESPACE), str(metadata["name"])),
        generation=int(metadata.get("generation", 0)),
        version=str(metadata.get("resourceVersion", "")),
        created=str(metadata.get("creationTimestamp", "")),
        uid=str(metadata.get("uid", "")),
        annotations=dict(metadata.get("annotations") or {}),
        is_going="deletionTimestamp" in metadata,
    )
