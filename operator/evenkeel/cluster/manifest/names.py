"""Names, labels and owners of a job's objects."""

from typing import Any

from contract import names
from evenkeel import planning
from evenkeel.objects import ConsumerGroup

Document = dict[str, Any]
OURS = {"app.kubernetes.io/managed-by": "evenkeel"}
"""The label of every object that the operator writes."""


def name_driver(group: ConsumerGroup) -> str:
    """Name the driver's pod and the other objects of the driver."""
    return names.name_driver(group.head.key.name)


def name_job(group: ConsumerGroup) -> str:
    """Name the ConfigMap that the driver and Spark read."""
    return f"{group.head.key.name}-job"


def build_labels(group: ConsumerGroup) -> dict[str, str]:
    """Build the labels of a group's objects."""
    planning.refuse_long_name(group)
    return {**OURS, names.GROUP_LABEL: group.head.key.name}


def build_metadata(group: ConsumerGroup, name: str) -> Document:
    """Build the metadata of an object that the group owns, so that it is deleted with the group."""
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": "ConsumerGroup",
        "name": group.head.key.name,
        "uid": group.head.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": name,
        "namespace": group.head.key.namespace,
        "labels": build_labels(group),
        "ownerReferences": [owner],
    }
