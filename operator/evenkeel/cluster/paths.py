"""Where objects are in the API."""

from evenkeel.api import parts
from evenkeel.objects import Key

Resource = tuple[str, str, str]
"""Group, version, plural."""
TOPICS: Resource = (parts.GROUP, parts.VERSION, "topics")
GROUPS: Resource = (parts.GROUP, parts.VERSION, "consumergroups")
PODS: Resource = ("", "v1", "pods")
NODES: Resource = ("", "v1", "nodes")
SECRETS: Resource = ("", "v1", "secrets")
EVENTS: Resource = ("", "v1", "events")
LEASES: Resource = ("coordination.k8s.io", "v1", "leases")


def listed(resource: Resource, namespace: str | None) -> str:
    """All objects of a kind, in one namespace or in all."""
    group, version, plural = resource
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/{plural}" if namespace is None else f"{root}/namespaces/{namespace}/{plural}"


def one(resource: Resource, key: Key) -> str:
    """One object."""
    return f"{listed(resource, key.namespace)}/{key.name}"
