"""Reads the objects of a cluster once, as from a file."""

import kopf

from evenkeel import manifests
from evenkeel.cluster import api, paths
from evenkeel.cluster.api import Api
from evenkeel.manifests import Manifests


async def read(namespace: str | None) -> Manifests:
    """Read all topics and groups of a namespace, or of all."""
    settings = kopf.OperatorSettings()
    found = Manifests()
    async with Api(lambda: api.connection(settings)) as client:
        for item in (await client.get(paths.listed(paths.TOPICS, namespace)))["items"]:
            topic = manifests.read_topic({**item, "kind": "Topic"})
            found.topics[topic.head.key] = topic
        for item in (await client.get(paths.listed(paths.GROUPS, namespace)))["items"]:
            group = manifests.read_group({**item, "kind": "ConsumerGroup"})
            found.groups[group.head.key] = group
    return found
