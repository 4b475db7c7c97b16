"""Builds all Kubernetes objects of a group's job."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from contract import job_file
from contract.job_file import JobFile
from contract.names import JOB, RESTART, RESTART_HASH
from evenkeel.cluster.manifest import (
    driver,
    executors,
    job,
    names,
    network_policy,
    pod_paths,
    pod_templates,
    rights,
    rocketmq_access,
)
from evenkeel.cluster.manifest.names import Document
from evenkeel.cluster.manifest.pods import WantedPods
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic


@dataclass(frozen=True, slots=True)
class JobObjects:
    """The objects of a job."""

    objects: list[Document]
    """All objects in the order of their creation. The driver's pod is the last one."""
    executor: Document
    """An executor's pod as Spark will create it, to check whether the API server accepts it."""


def build_job_objects(group: ConsumerGroup, topics: Mapping[Key, Topic], image: str) -> JobObjects:
    """
    Build all objects of a job. `image` is the image of jobs whose spec has none.

    All objects can be used for server-side apply: the driver writes none of their fields. An
    invalid job raises a `ManifestError`.
    """
    made = _build(group, topics, image)
    return JobObjects(_list_objects(group, made), _build_executor(group, made))


def _list_objects(group: ConsumerGroup, made: "_Built") -> list[Document]:
    return [
        *rights.build_rights(group),
        _build_config_map(group, made),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": names.build_metadata(group, names.name_driver(group)),
        },
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": names.build_metadata(group, names.name_driver(group)),
        },
        network_policy.build_policy(group, [made.driver["spec"], made.template["spec"]]),
        _annotate(made.driver, made.restart_hash),
    ]


def compute_restart_hash(group: ConsumerGroup, topics: Mapping[Key, Topic], image: str) -> str:
    """Compute the driver's fingerprint. If the pod's annotation differs, the job restarts."""
    return _build(group, topics, image).restart_hash


def _build_executor(group: ConsumerGroup, made: "_Built") -> Document:
    named = {**made.template["metadata"], "generateName": f"{group.head.key.name}-executor-"}
    ours = {"containers": [{"name": pod_templates.CONTAINER, "image": made.image}]}
    pod: Document = pod_templates.merge(made.template, {"metadata": named, "spec": ours}, "")
    return pod


@dataclass(frozen=True, slots=True)
class _Built:
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


def _build(group: ConsumerGroup, topics: Mapping[Key, Topic], image: str) -> _Built:
    if group.spec.job is None:
        raise ManifestError(f"{group} has no job")
    wanted = WantedPods(
        group,
        group.spec.job,
        group.spec.job.image or image,
        rocketmq_access.find_access(group, topics),
    )
    template = executors.build_template(wanted)
    return _Built(
        driver.build_pod(wanted),
        template,
        job.build(wanted, topics, template),
        wanted.image,
        group.head.annotations.get(RESTART, ""),
    )


def _build_config_map(group: ConsumerGroup, made: _Built) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": names.build_metadata(group, names.name_job(group)),
        "data": {
            JOB: job_file.encode(made.job),
            pod_paths.EXECUTOR_TEMPLATE: json.dumps(made.template, indent=2),
        },
    }


def _annotate(pod: Document, value: str) -> Document:
    annotations = pod["metadata"]["annotations"] | {RESTART_HASH: value}
    return pod | {"metadata": pod["metadata"] | {"annotations": annotations}}
