"""Finds names in a cluster or a kubeconfig for the completion of a command line."""

from collections.abc import Mapping, Sequence

from evenkeel.cluster.api import paths
from evenkeel.errors import EvenkeelError
from evenkeel_cli.cluster import access, kubeconfig, reading
from evenkeel_cli.cluster.client import ClusterClient
from evenkeel_cli.facts import draining

NAMESPACES: paths.Resource = ("", "v1", "namespaces")
PATIENCE_SECONDS = 2.0
"""Time limit for the cluster. It is short, because a person has pressed a key and waits."""


def find(what: str, given: Mapping[str, str]) -> Sequence[str]:
    """Find the names for an option or an argument; an empty list if they cannot be read."""
    try:
        if what == "context":
            return sorted(kubeconfig.read(given.get("kubeconfig")).contexts)
        if what in ("group", "groups", "pods", "namespace"):
            return _find_in_cluster(what, given)
    except EvenkeelError:  # completion shows no errors
        pass
    return []


def _find_in_cluster(what: str, given: Mapping[str, str]) -> Sequence[str]:
    way = access.find(given.get("kubeconfig"), given.get("context"))
    cluster = ClusterClient(way, PATIENCE_SECONDS)
    if what == "namespace":
        return [each["metadata"]["name"] for each in cluster.list_objects(NAMESPACES, None)]
    namespace = given.get("namespace") or cluster.namespace
    groups = reading.read_outlines(cluster, namespace)
    if what == "pods":
        return sorted({pod for group in groups for pod in draining.find_readers(group)})
    return sorted(group.head.key.name for group in groups)
