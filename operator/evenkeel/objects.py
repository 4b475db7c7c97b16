"""Topics and ConsumerGroups in memory, read from a cluster or from a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from contract import assignment
from contract.kinds.groups import GroupSpec, GroupStatus
from contract.kinds.topics import TopicSpec, TopicStatus
from contract.names import REBALANCE

DEFAULT_NAMESPACE = "default"


class Key(NamedTuple):
    """The namespace and name of an object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Show namespace and name, without the namespace `default`."""
        return self.name if self.namespace == DEFAULT_NAMESPACE else f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Head:
    """The metadata of a Topic or a ConsumerGroup."""

    key: Key
    generation: int = 0
    """The generation of the object: it grows with each change of the spec."""
    version: str = ""
    """The resource version, which changes with every write."""
    created: str = ""
    uid: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_going: bool = False
    """Whether the object is being deleted and waits for finalizers."""

    @property
    def age_order(self) -> tuple[str, Key]:
        """A sort key that puts the oldest object first."""
        return self.created, self.key

    @property
    def origin(self) -> str:
        """Identifies the object across clusters. The older of two objects has the lower origin."""
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
        """The name in RocketMQ."""
        return self.spec.topic or self.head.key.name

    def __str__(self) -> str:
        """Show kind, namespace and name, for messages to users."""
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
        """The name in RocketMQ."""
        return self.spec.group or self.head.key.name

    def find_key(self, name: str) -> Key:
        """Find the key of an object that the spec names, in the same namespace."""
        return Key(self.head.key.namespace, name)

    @property
    def topic_keys(self) -> list[Key]:
        """All topics that the spec names."""
        return [self.find_key(each.name) for each in self.spec.topics]

    @property
    def rebalance_asked(self) -> str:
        """The value of the rebalance request that is not handled yet; empty without a request."""
        asked = self.head.annotations.get(REBALANCE, "")
        return "" if asked == self.status.rebalanced_for else asked

    @property
    def to_drain(self) -> frozenset[str]:
        """The pods that a user wants to drain. Some may already be gone."""
        return frozenset(assignment.list_drained(self.head.annotations))

    def name_slot(self, number: int) -> str:
        """Name a slot of the group's job or of its members."""
        return f"{self.group}-{number}"

    def read_slot(self, name: str) -> int | None:
        """Read the number of a slot from its name; None if it is no slot of this group."""
        group, _, number = name.rpartition("-")
        is_slot = group == self.group and number.isascii() and number.isdigit()
        return int(number) if is_slot else None

    def __str__(self) -> str:
        """Show kind, namespace and name, for messages to users."""
        return f"{self.KIND} {self.head.key}"


def read_head(metadata: Mapping[str, Any]) -> Head:
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
