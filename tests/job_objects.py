"""Builds groups with a job, and the Kubernetes objects that belong to them."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from contract import job_file
from contract.job_file import JobFile
from evenkeel import manifests
from evenkeel.cluster.manifest import job_objects, pod_templates
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic

Document = dict[str, Any]
IMAGE = "registry/evenkeel-job:1"
CLAIM: Document = {"checkpoint": {"persistentVolumeClaim": "billing-state"}}
CODE = {"configMapRef": {"name": "code", "key": "transform.py"}}


def a_topic(name: str = "orders", **spec: Any) -> Topic:
    metadata = {"name": name, "namespace": "shop"}
    spec = {"nameServers": ["mq:9876"]} | spec
    return manifests.read_topic({"kind": "Topic", "metadata": metadata, "spec": spec})


def a_group(
    *,
    name: str = "billing",
    topics: tuple[str, ...] = ("orders",),
    annotations: Mapping[str, str] | None = None,
    status: Document | None = None,
    uid: str = "1234",
    **job: Any,
) -> ConsumerGroup:
    whole_job = {
        "executors": 3,
        "sink": {"format": "json", "path": "s3a://rows"},
        "checkpoint": {"url": "s3a://state"},
    } | job
    return manifests.read_group(
        {
            "kind": "ConsumerGroup",
            "metadata": {
                "name": name,
                "namespace": "shop",
                "uid": uid,
                "annotations": dict(annotations or {}),
            },
            "spec": {"topics": [{"name": each} for each in topics], "job": whole_job},
            "status": status or {},
        }
    )


def of_pods(status: Document, **spec: Any) -> ConsumerGroup:
    consumers = {"consumers": {"podSelector": {"matchLabels": {"app": "a"}}}}
    return manifests.read_group(
        {
            "kind": "ConsumerGroup",
            "metadata": {"name": "billing", "namespace": "shop"},
            "spec": {"topics": [{"name": "orders"}], **consumers, **spec},
            "status": status,
        }
    )


def known(*topics: Topic) -> dict[Key, Topic]:
    return {topic.head.key: topic for topic in topics or (a_topic(),)}


def objects(group: ConsumerGroup, *topics: Topic) -> dict[tuple[str, str], Document]:
    found = job_objects.build_job_objects(group, known(*topics), IMAGE).objects
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def driver(group: ConsumerGroup, *topics: Topic) -> Document:
    return objects(group, *topics)["Pod", "billing-driver"]


def files(group: ConsumerGroup, *topics: Topic) -> tuple[JobFile, Document]:
    """Return the job file and the template of executors."""
    data = objects(group, *topics)["ConfigMap", "billing-job"]["data"]
    return job_file.decode(data["job.json"]), json.loads(data["executor.json"])


def spark(group: ConsumerGroup) -> dict[str, str]:
    return files(group)[0].spark


def main(pod: Document) -> Document:
    return pod_templates.find_container(pod["spec"])


def mounted(pod: Document) -> dict[str, str]:
    return {each["mountPath"]: each["name"] for each in main(pod)["volumeMounts"]}


def volumes(pod: Document) -> dict[str, Document]:
    return {each["name"]: each for each in pod["spec"]["volumes"]}


def environment(pod: Document) -> dict[str, Document]:
    return {each["name"]: each for each in main(pod)["env"]}


def both(group: ConsumerGroup, *topics: Topic) -> list[Document]:
    return [driver(group, *topics), files(group, *topics)[1]]


def templated(who: str, spec: Document, **metadata: Any) -> ConsumerGroup:
    return a_group(**of(who, podTemplate={"metadata": metadata, "spec": spec}))


def of(who: str, **process: Any) -> Document:
    """Return the part of a job's spec for the driver or for the executors."""
    return {who: process}


def refused(group: ConsumerGroup, *topics: Topic) -> str:
    with pytest.raises(ManifestError) as refusal:
        job_objects.build_job_objects(group, known(*topics), IMAGE)
    return str(refusal.value)
