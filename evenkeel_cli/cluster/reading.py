"""What a cluster has of ours, read once, as from a file."""

from collections.abc import Sequence

from contract.kinds.groups import Assigned
from evenkeel import manifests
from evenkeel.cluster import paths, slices
from evenkeel.errors import EvenkeelError
from evenkeel.manifests import Manifests
from evenkeel.objects import ConsumerGroup, Key, Topic
from evenkeel_cli.cluster.client import Cluster, MissingError

MOST_NAMED = 10


def everything(cluster: Cluster, namespace: str | None) -> Manifests:
    """Read all topics and groups of a namespace, or of all."""
    return Manifests(
        {topic.head.key: topic for topic in topics(cluster, namespace)},
        {group.head.key: group for group in groups(cluster, namespace)},
    )


def topics(cluster: Cluster, namespace: str | None) -> list[Topic]:
    """Read all topics."""
    found = cluster.listed(paths.TOPICS, namespace)
    return [manifests.read_topic({**each, "kind": "Topic"}) for each in found]


def groups(cluster: Cluster, namespace: str | None) -> list[ConsumerGroup]:
    """Read all groups, long assignments too."""
    return [_whole(cluster, each) for each in outlines(cluster, namespace)]


def outlines(cluster: Cluster, namespace: str | None) -> list[ConsumerGroup]:
    """Read all groups, without assignments that are too long for a status."""
    found = cluster.listed(paths.GROUPS, namespace)
    return [manifests.read_group({**each, "kind": "ConsumerGroup"}) for each in found]


def group(cluster: Cluster, key: Key) -> ConsumerGroup:
    """Read one group; the error of one that is missing says which there are."""
    try:
        document = cluster.get(paths.GROUPS, key)
    except MissingError as error:
        names = [item["metadata"]["name"] for item in cluster.listed(paths.GROUPS, key.namespace)]
        raise EvenkeelError(
            f"there is no ConsumerGroup {key.name} in namespace {key.namespace}: {there_are(names)}"
        ) from error
    return _whole(cluster, manifests.read_group({**document, "kind": "ConsumerGroup"}))


def there_are(names: Sequence[str]) -> str:
    """Say which there are, for who has named another one."""
    if not names:
        return "there is none; see -n and --context"
    more = len(names) - MOST_NAMED
    return "there are " + ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _whole(cluster: Cluster, found: ConsumerGroup) -> ConsumerGroup:
    """Bring in what the status only names; where that is missing, it stays as it is."""

    def find(key: Key) -> list[Assigned] | None:
        try:
            return slices.read(cluster.get(paths.CONFIG_MAPS, key))
        except MissingError:
            return None

    return slices.whole(found, find)
