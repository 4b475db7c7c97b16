"""How a job's objects are called, labelled and owned."""

from typing import Any

from contract import names
from evenkeel import planning
from evenkeel.objects import ConsumerGroup

Document = dict[str, Any]


def driver(group: ConsumerGroup) -> str:
    """Name the pod, and all that is only the driver's."""
    return names.name_driver(group.head.key.name)


def job(group: ConsumerGroup) -> str:
    """Name the ConfigMap with what the driver and Spark read."""
    return f"{group.head.key.name}-job"


def labels(group: ConsumerGroup) -> dict[str, str]:
    """Label whatever belongs to a group."""
    planning.refuse_long_name(group)
    return {"app.kubernetes.io/managed-by": "evenkeel", names.GROUP_LABEL: group.head.key.name}


def metadata(group: ConsumerGroup, name: str) -> Document:
    """Say whose an object is; it goes when the group goes."""
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
        "labels": labels(group),
        "ownerReferences": [owner],
    }
