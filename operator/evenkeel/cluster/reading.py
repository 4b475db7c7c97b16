"""Reads the objects of a cluster once, as from a file."""

import kopf

from evenkeel import manifests
from evenkeel.cluster import api, paths, slices
from evenkeel.cluster.api import Api
from evenkeel.manifests import Manifests
from evenkeel.objects import Group


async def _whole(client: Api, group: Group) -> Group:
    """Bring in what the status only names."""
    keys = [group.beside(name) for name in group.status.slices]
    found = {key: await client.get(paths.one(paths.CONFIG_MAPS, key)) for key in keys}
    return slices.whole(group, lambda key: slices.read(found[key]))


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
            found.groups[group.head.key] = await _whole(client, group)
    return found
