"""Who the objects of a list are, without what they hold: an API server tells that much faster."""

from collections.abc import Iterator

import msgspec

from evenkeel.objects import DEFAULT_NAMESPACE, Head, Key

MEDIA_TYPE = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = DEFAULT_NAMESPACE
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""


class _Item(msgspec.Struct):
    metadata: _Metadata


class _ListMetadata(msgspec.Struct):
    more: str = msgspec.field(name="continue", default="")


class Heads(msgspec.Struct):
    """One page of a list."""

    metadata: _ListMetadata
    items: list[_Item] | None = None
    """None: there are no such objects."""

    def __iter__(self) -> Iterator[Head]:
        """Say of each object who it is."""
        for item in self.items or ():
            found = item.metadata
            yield Head(
                Key(found.namespace, found.name),
                version=found.resource_version,
                created=found.creation_timestamp,
                uid=found.uid,
            )
