"""Pages of lists, with whole objects or, because this is much faster, with only their metadata."""

from typing import Any, Generic, TypeVar

import msgspec

from evenkeel.objects import DEFAULT_NAMESPACE, Head, Key

Item = TypeVar("Item")
HEADS_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = DEFAULT_NAMESPACE
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""


class Bare(msgspec.Struct):
    """Only the metadata of an object."""

    metadata: _Metadata

    @property
    def head(self) -> Head:
        """The metadata as a `Head`."""
        found = self.metadata
        return Head(
            Key(found.namespace, found.name),
            version=found.resource_version,
            created=found.creation_timestamp,
            uid=found.uid,
        )


class _ListMetadata(msgspec.Struct):
    more: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, Generic[Item]):
    """One page of a list."""

    metadata: _ListMetadata
    items: list[Item] | None = None
    """None if there are no such objects."""


Whole = Page[dict[str, Any]]
Heads = Page[Bare]
