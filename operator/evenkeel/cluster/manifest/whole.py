"""Everything that must exist in Kubernetes for a group's job."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from contract import job_file
from contract.job_file import JobFile
from contract.names import JOB, RESTART, RESTART_HASH
from evenkeel.cluster.manifest import (
    access,
    driver,
    executors,
    job,
    merging,
    names,
    network,
    places,
    rights,
)
from evenkeel.cluster.manifest.names import Document
from evenkeel.cluster.manifest.pods import Wanted
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic


@dataclass(frozen=True, slots=True)
class Whole:
    """What a job needs."""

    objects: list[Document]
    """In the order in which they can be made; the driver's pod is the last."""
    executor: Document
    """An executor's pod as Spark makes it, as far as it can be refused for what a user said."""


def of(group: ConsumerGroup, topics: Mapping[Key, Topic], image: str) -> Whole:
    """
    Make all that a job needs; `image` is for jobs that name none.

    Each object is fit for server-side apply, and no field of theirs is the driver's to write. What
    cannot be is a `ManifestError`.
    """
    made = _made(group, topics, image)
    return Whole(_objects(group, made), _executor(group, made))


def _objects(group: ConsumerGroup, made: "_Made") -> list[Document]:
    return [
        *rights.objects(group),
        _config_map(group, made),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": names.metadata(group, names.driver(group)),
        },
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": names.metadata(group, names.driver(group)),
        },
        network.policy(group, [made.driver["spec"], made.template["spec"]]),
        _stamped(made.driver, made.restart_hash),
    ]


def restart_hash(group: ConsumerGroup, topics: Mapping[Key, Topic], image: str) -> str:
    """Tell one job from another that needs a new driver; compare with the pod's annotation."""
    return _made(group, topics, image).restart_hash


def _executor(group: ConsumerGroup, made: "_Made") -> Document:
    named = {**made.template["metadata"], "generateName": f"{group.head.key.name}-executor-"}
    ours = {"containers": [{"name": merging.CONTAINER, "image": made.image}]}
    pod: Document = merging.merged(made.template, {"metadata": named, "spec": ours}, "")
    return pod


@dataclass(frozen=True, slots=True)
class _Made:
    driver: Document
    template: Document
    job: JobFile
    image: str
    restart: str

    @property
    def restart_hash(self) -> str:
        metadata = self.driver["metadata"]
        pod = [metadata["labels"], metadata["annotations"], self.driver["spec"]]
        lasting = job_file.encode(job.reset_what_may_change(self.job))
        whole = [pod, self.template, lasting, self.restart]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]


def _made(group: ConsumerGroup, topics: Mapping[Key, Topic], image: str) -> _Made:
    if group.spec.job is None:
        raise ManifestError(f"{group} has no job")
    wanted = Wanted(group, group.spec.job, group.spec.job.image or image, access.of(group, topics))
    template = executors.template(wanted)
    return _Made(
        driver.pod(wanted),
        template,
        job.build(wanted, topics, template),
        wanted.image,
        group.head.annotations.get(RESTART, ""),
    )


def _config_map(group: ConsumerGroup, made: _Made) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": names.metadata(group, names.job(group)),
        "data": {
            JOB: job_file.encode(made.job),
            places.EXECUTOR_TEMPLATE: json.dumps(made.template, indent=2),
        },
    }


def _stamped(pod: Document, value: str) -> Document:
    annotations = pod["metadata"]["annotations"] | {RESTART_HASH: value}
    return pod | {"metadata": pod["metadata"] | {"annotations": annotations}}
