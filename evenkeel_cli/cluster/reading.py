"""Reads Topics and ConsumerGroups of a cluster into the same types as those of a file."""

from collections.abc import Sequence

from contract.kinds.groups import Assigned
from evenkeel import manifests
from evenkeel.cluster import assignment_slices
from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_errors import NotFoundError
from evenkeel.errors import EvenkeelError
from evenkeel.manifests import Manifests
from evenkeel.objects import ConsumerGroup, Key, Topic
from evenkeel_cli.cluster.client import ClusterClient

MOST_NAMED = 10


def read_all(cluster: ClusterClient, namespace: str | None) -> Manifests:
    """Read all Topics and ConsumerGroups, of one namespace or of all."""
    return Manifests(
        {topic.head.key: topic for topic in read_topics(cluster, namespace)},
        {group.head.key: group for group in read_groups(cluster, namespace)},
    )


def read_topics(cluster: ClusterClient, namespace: str | None) -> list[Topic]:
    """Read all Topics."""
    found = cluster.list_objects(paths.TOPICS, namespace)
    return [manifests.read_topic({**each, "kind": "Topic"}) for each in found]


def read_groups(cluster: ClusterClient, namespace: str | None) -> list[ConsumerGroup]:
    """Read all groups, with the assignments from slices."""
    return [_complete(cluster, each) for each in read_outlines(cluster, namespace)]


def read_outlines(cluster: ClusterClient, namespace: str | None) -> list[ConsumerGroup]:
    """Read all groups, without assignments from slices."""
    found = cluster.list_objects(paths.GROUPS, namespace)
    return [manifests.read_group({**each, "kind": "ConsumerGroup"}) for each in found]


def read_group(cluster: ClusterClient, key: Key) -> ConsumerGroup:
    """Read one group. If it is missing, the error lists the existing groups."""
    try:
        document = cluster.get(paths.GROUPS, key)
    except NotFoundError as error:
        names = [
            item["metadata"]["name"] for item in cluster.list_objects(paths.GROUPS, key.namespace)
        ]
        known = list_known(names)
        raise EvenkeelError(
            f"there is no ConsumerGroup {key.name} in namespace {key.namespace}: {known}"
        ) from error
    return _complete(cluster, manifests.read_group({**document, "kind": "ConsumerGroup"}))


def list_known(names: Sequence[str]) -> str:
    """Write a hint that lists the existing names."""
    if not names:
        return "the namespace has none; see -n and --context"
    more = len(names) - MOST_NAMED
    return "it has " + ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _complete(cluster: ClusterClient, found: ConsumerGroup) -> ConsumerGroup:
    """Add the assignments of all slices that the status names, if all slices exist."""

    def find(key: Key) -> list[Assigned] | None:
        try:
            return assignment_slices.read(cluster.get(paths.CONFIG_MAPS, key))
        except NotFoundError:
            return None

    return assignment_slices.join_slices(found, find)
