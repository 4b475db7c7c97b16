"""Where objects are in the API."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from contract.kinds import parts
from evenkeel.objects import Key

Resource = tuple[str, str, str]
"""Group, version, plural."""
TOPICS: Resource = (parts.GROUP, parts.VERSION, "topics")
GROUPS: Resource = (parts.GROUP, parts.VERSION, "consumergroups")
PODS: Resource = ("", "v1", "pods")
NODES: Resource = ("", "v1", "nodes")
CONFIG_MAPS: Resource = ("", "v1", "configmaps")
CLAIMS: Resource = ("", "v1", "persistentvolumeclaims")
SECRETS: Resource = ("", "v1", "secrets")
EVENTS: Resource = ("", "v1", "events")
LEASES: Resource = ("coordination.k8s.io", "v1", "leases")


def listed(resource: Resource, namespace: str | None) -> str:
    """All objects of a kind, in one namespace or in all."""
    group, version, plural = resource
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    if namespace is None:
        return f"{root}/{plural}"
    return f"{root}/namespaces/{quote(namespace, safe='')}/{plural}"


def one(resource: Resource, key: Key) -> str:
    """One object."""
    return f"{listed(resource, key.namespace)}/{quote(key.name, safe='')}"


def of(document: Mapping[str, Any]) -> str:
    """Where an object of a kind that we make is, by what it says of itself."""
    group, _, version = document["apiVersion"].rpartition("/")
    kind = document["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    metadata = document["metadata"]
    return one((group, version, plural), Key(metadata["namespace"], metadata["name"]))
