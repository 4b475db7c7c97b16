"""Pods as consumers: what is kept of each, and who counts. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evenkeel.objects import Key
from lb_core.model import Member

ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class Pod:
    """The little that is kept of a pod."""

    key: Key
    labels: Mapping[str, str]
    node: str
    is_ready: bool


def read(body: Mapping[str, Any]) -> Pod:
    """Read what the API server tells of a pod."""
    metadata, status = body["metadata"], body.get("status") or {}
    found = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    is_ready = (
        found.get("Ready") == "True"
        and status.get("phase") == "Running"
        and "deletionTimestamp" not in metadata
    )
    return Pod(
        Key(metadata["namespace"], metadata["name"]),
        dict(metadata.get("labels") or {}),
        (body.get("spec") or {}).get("nodeName") or "",
        is_ready,
    )


def members(
    found: Iterable[Pod], wanted: Mapping[str, str], zone: Callable[[str], str | None]
) -> Iterator[Member]:
    """Find the pods that are ready and have these labels, each in its node's zone."""
    for pod in found:
        if pod.is_ready and wanted.items() <= pod.labels.items():
            yield Member(pod.key.name, zone(pod.node))
