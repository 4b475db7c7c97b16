"""Paths of objects in the Kubernetes API."""

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


def build_list_path(resource: Resource, namespace: str | None) -> str:
    """Build the path of all objects of a kind, in one namespace or in all."""
    group, version, plural = resource
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    if namespace is None:
        return f"{root}/{plural}"
    return f"{root}/namespaces/{quote(namespace, safe='')}/{plural}"


def build_path(resource: Resource, key: Key) -> str:
    """Build the path of one object."""
    return f"{build_list_path(resource, key.namespace)}/{quote(key.name, safe='')}"


def build_path_of(document: Mapping[str, Any]) -> str:
    """Build the path of an object from its document."""
    group, _, version = document["apiVersion"].rpartition("/")
    kind = document["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    metadata = document["metadata"]
    return build_path((group, version, plural), Key(metadata["namespace"], metadata["name"]))
