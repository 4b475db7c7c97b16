"""Names that a cluster or a kubeconfig knows, for what is being typed."""

from collections.abc import Mapping, Sequence

from evenkeel.cluster import paths
from evenkeel.errors import EvenkeelError
from evenkeel_cli.cluster import access, kubeconfig, reading
from evenkeel_cli.cluster.client import Cluster
from evenkeel_cli.facts import draining

NAMESPACES: paths.Resource = ("", "v1", "namespaces")
PATIENCE_SECONDS = 2.0
"""Somebody has pressed a key and waits."""


def found(what: str, given: Mapping[str, str]) -> Sequence[str]:
    """Find the names for an option or an argument; none where nothing tells."""
    try:
        if what == "context":
            return sorted(kubeconfig.read(given.get("kubeconfig")).contexts)
        if what in ("group", "groups", "pods", "namespace"):
            return _of_cluster(what, given)
    except EvenkeelError:  # it is not the time to complain
        pass
    return []


def _of_cluster(what: str, given: Mapping[str, str]) -> Sequence[str]:
    way = access.found(given.get("kubeconfig"), given.get("context"))
    cluster = Cluster(way, PATIENCE_SECONDS)
    if what == "namespace":
        return [each["metadata"]["name"] for each in cluster.listed(NAMESPACES, None)]
    namespace = given.get("namespace") or cluster.namespace
    groups = reading.outlines(cluster, namespace)
    if what == "pods":
        return sorted({pod for group in groups for pod in draining.readers(group)})
    return sorted(group.head.key.name for group in groups)
