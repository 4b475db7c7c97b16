"""
Starts a job: creates all its objects, if all objects that its spec refers to exist.

Without this check, the driver's pod would stay pending without a message, or Spark would request
the same executor for ever, and only the driver's log would tell why.
"""

import contextlib
import re
from collections.abc import Mapping

from contract.names import ASKED_HASH
from evenkeel import job_file
from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_client import Api, Document
from evenkeel.cluster.api.api_errors import ApiError, ConflictError, ForbiddenError, NotFoundError
from evenkeel.cluster.drivers import restart_turns
from evenkeel.cluster.manifest import job_objects, names
from evenkeel.errors import EvenkeelError, ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic

MOST_PREFIX = 58
"""How many characters of `generateName` the API server uses."""
RANDOM = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of the random suffix that the API server appends."""


async def start_driver(
    api: Api, group: ConsumerGroup, topics: Mapping[Key, Topic], image: str
) -> None:
    """Create all objects of a job. The driver's pod is created last."""
    wanted = job_objects.build_job_objects(group, topics, image)
    await _refuse_missing_objects(api, group)
    for each in wanted.objects:
        await refuse_unless_ours(api, group, each)
    await _try_executor(api, group, wanted.executor)
    driver = wanted.objects[-1]["metadata"]["annotations"]
    driver[ASKED_HASH] = restart_turns.hash_wish(group, topics)
    for each in wanted.objects:
        await api.apply(paths.build_path_of(each), each)


async def free_lease(api: Api, group: ConsumerGroup, holder: str) -> None:
    """Release the Lease of a driver that has ended, so that the next driver need not wait."""
    path = paths.build_path(paths.LEASES, group.find_key(names.name_driver(group)))
    with contextlib.suppress(NotFoundError, ConflictError):
        found = await api.get(path)
        if found["spec"].get("holderIdentity") == holder:
            await api.replace(path, {**found, "spec": {**found["spec"], "holderIdentity": ""}})


async def refuse_unless_ours(api: Api, group: ConsumerGroup, wanted: Document) -> None:
    """Refuse to replace an object of the same name that this group does not own."""
    try:
        found = await api.get(paths.build_path_of(wanted))
    except NotFoundError:
        return
    owners = found["metadata"].get("ownerReferences") or ()
    if group.head.uid not in [each["uid"] for each in owners]:
        raise ManifestError(
            f"{group}: there already is a {wanted['kind']} {wanted['metadata']['name']}, which "
            "does not belong to this group; delete or rename one of the two"
        )


async def _refuse_missing_objects(api: Api, group: ConsumerGroup) -> None:
    job = group.spec.job
    claim = job.checkpoint.persistent_volume_claim if job else None
    if claim is not None:
        await _find_named(api, group, "PersistentVolumeClaim", paths.CLAIMS, claim)
    for ref in job_file.list_refs(group):
        found = await _find_named(api, group, "ConfigMap", paths.CONFIG_MAPS, ref.name)
        if ref.key not in {**(found.get("data") or {}), **(found.get("binaryData") or {})}:
            raise ManifestError(f"{group}: ConfigMap {ref.name} has no entry {ref.key}; add it")
    for name in job_file.list_secrets(group):
        with contextlib.suppress(ForbiddenError):  # the operator may have no right to read Secrets
            await _find_named(api, group, "Secret", paths.SECRETS, name)


async def _find_named(
    api: Api, group: ConsumerGroup, kind: str, resource: paths.Resource, name: str
) -> Document:
    try:
        return await api.get(paths.build_path(resource, group.find_key(name)))
    except NotFoundError as error:
        raise ManifestError(
            f"{group}: there is no {kind} {group.find_key(name)}, which its job names; create it, "
            "or correct spec.job"
        ) from error


async def _try_executor(api: Api, group: ConsumerGroup, pod: Document) -> None:
    """Check with a dry run whether executors can be created."""
    try:
        await api.try_to_create(paths.build_list_path(paths.PODS, group.head.key.namespace), pod)
    except ApiError as error:
        why = mask_random_name(str(error), pod["metadata"]["generateName"])
        raise EvenkeelError(
            f"{group}: the API server refuses its executors; see spec.job.executor: {why}"
        ) from error


def mask_random_name(text: str, prefix: str) -> str:
    """
    Replace the random suffix in the name of a refused object.

    Otherwise the message would differ after each attempt, and the status would be written each
    time.
    """
    return re.sub(f"({re.escape(prefix[:MOST_PREFIX])})[{RANDOM}]{{5}}(?![a-z0-9])", r"\1*", text)
