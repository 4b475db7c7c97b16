"""
Starts a job: makes all that it needs, once everything that it names is there.

A pod that can never run is not made: it would wait without a word, or Spark would ask for the same
executor for ever, and only the driver's log would say why it gets none.
"""

import contextlib
import re
from collections.abc import Mapping

from contract.names import ASKED_HASH
from evenkeel import job_file
from evenkeel.cluster import paths, staging
from evenkeel.cluster.api import Api, ApiError, ConflictError, Document, ForbiddenError, GoneError
from evenkeel.cluster.manifest import names, whole
from evenkeel.errors import EvenkeelError, ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic

MOST_PREFIX = 58
"""Letters of `generateName` that the API server uses."""
RANDOM = "bcdfghjklmnpqrstvwxz2456789"
"""What it adds."""


async def start_driver(
    api: Api, group: ConsumerGroup, topics: Mapping[Key, Topic], image: str
) -> None:
    """Make everything; the driver's pod is the last."""
    wanted = whole.of(group, topics, image)
    await _refuse_without_what_it_names(api, group)
    for each in wanted.objects:
        await refuse_unless_ours(api, group, each)
    await _try_executor(api, group, wanted.executor)
    driver = wanted.objects[-1]["metadata"]["annotations"]
    driver[ASKED_HASH] = staging.asked(group, topics)
    for each in wanted.objects:
        await api.apply(paths.of(each), each)


async def free_lease(api: Api, group: ConsumerGroup, holder: str) -> None:
    """Free the Lease of a driver that is no more: the next one need not wait until it is over."""
    path = paths.one(paths.LEASES, group.beside(names.driver(group)))
    with contextlib.suppress(GoneError, ConflictError):
        found = await api.get(path)
        if found["spec"].get("holderIdentity") == holder:
            await api.replace(path, {**found, "spec": {**found["spec"], "holderIdentity": ""}})


async def refuse_unless_ours(api: Api, group: ConsumerGroup, wanted: Document) -> None:
    """Leave alone what somebody else has made under the same name."""
    try:
        found = await api.get(paths.of(wanted))
    except GoneError:
        return
    owners = found["metadata"].get("ownerReferences") or ()
    if group.head.uid not in [each["uid"] for each in owners]:
        raise ManifestError(
            f"{group}: there is a {wanted['kind']} {wanted['metadata']['name']} already, which "
            "is not of this group; delete or rename one of the two"
        )


async def _refuse_without_what_it_names(api: Api, group: ConsumerGroup) -> None:
    job = group.spec.job
    claim = job.checkpoint.persistent_volume_claim if job else None
    if claim is not None:
        await _named(api, group, "PersistentVolumeClaim", paths.CLAIMS, claim)
    for ref in job_file.refs(group):
        found = await _named(api, group, "ConfigMap", paths.CONFIG_MAPS, ref.name)
        if ref.key not in {**(found.get("data") or {}), **(found.get("binaryData") or {})}:
            raise ManifestError(f"{group}: ConfigMap {ref.name} has no entry {ref.key}; add it")
    for name in job_file.secrets(group):
        with contextlib.suppress(ForbiddenError):  # Secrets may be kept from the operator
            await _named(api, group, "Secret", paths.SECRETS, name)


async def _named(
    api: Api, group: ConsumerGroup, kind: str, resource: paths.Resource, name: str
) -> Document:
    try:
        return await api.get(paths.one(resource, group.beside(name)))
    except GoneError as error:
        raise ManifestError(
            f"{group}: there is no {kind} {group.beside(name)}, which its job names; make it, "
            "or correct spec.job"
        ) from error


async def _try_executor(api: Api, group: ConsumerGroup, pod: Document) -> None:
    """Ask whether executors may be made as they are wanted; none is made yet."""
    try:
        await api.try_to_create(paths.listed(paths.PODS, group.head.key.namespace), pod)
    except ApiError as error:
        why = without_random_name(str(error), pod["metadata"]["generateName"])
        raise EvenkeelError(
            f"{group}: its executors would be refused; see spec.job.executor: {why}"
        ) from error


def without_random_name(text: str, prefix: str) -> str:
    """
    Say of a refused object only how its name begins, as the API server has made up the rest.

    Else each attempt would have another reason, and the status would be written each time.
    """
    return re.sub(f"({re.escape(prefix[:MOST_PREFIX])})[{RANDOM}]{{5}}(?![a-z0-9])", r"\1*", text)
