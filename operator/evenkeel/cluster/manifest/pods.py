"""What the pods of driver and executors have in common."""

from dataclasses import dataclass

from contract.kinds.jobs import Job
from contract.names import ROLE_LABEL
from evenkeel import times
from evenkeel.cluster.manifest import merging, names, places
from evenkeel.cluster.manifest.access import ClusterAccess
from evenkeel.cluster.manifest.names import Document
from evenkeel.objects import ConsumerGroup

STATE_VOLUME = "evenkeel-state"
BEYOND_FETCH_SECONDS = 90
"""A batch that fetches as long as it may has so long to be written, and the driver to report it."""
STATE_GROUP = 185
"""Owns the claim's files where the user's template names no other: any number would do."""
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}
_WRITABLE = {"evenkeel-tmp": places.TMP, "evenkeel-work": places.WORK}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job, and what its pods are made from."""

    group: ConsumerGroup
    job: Job
    image: str
    access: ClusterAccess

    @property
    def stop_seconds(self) -> int:
        """Tell how long a batch may take to its end, once it is to stop."""
        return int(times.seconds(self.job.fetch_deadline)) + BEYOND_FETCH_SECONDS


def defaults(wanted: Wanted, *, has_state: bool) -> Document:
    """Say what a user's template may say otherwise."""
    security: Document = {"seccompProfile": {"type": "RuntimeDefault"}}
    if has_state:
        security |= {"fsGroup": STATE_GROUP, "fsGroupChangePolicy": "OnRootMismatch"}
    spec = {
        "containers": [{"name": merging.CONTAINER, "imagePullPolicy": "IfNotPresent"}],
        "enableServiceLinks": False,
        "securityContext": security,
        "terminationGracePeriodSeconds": wanted.stop_seconds,
    }
    return {"metadata": {}, "spec": spec}


def metadata(wanted: Wanted, role: str) -> Document:
    """Label a pod."""
    labels = names.labels(wanted.group) | {ROLE_LABEL: role}
    return {"labels": labels, "annotations": {}}


def spec(wanted: Wanted, *, has_state: bool) -> Document:
    """Say what both need."""
    container = {
        "name": merging.CONTAINER,
        "workingDir": places.WORK,
        "env": wanted.access.environment,
        "securityContext": _RESTRICTED,
        "volumeMounts": [
            *({"name": name, "mountPath": path} for name, path in _WRITABLE.items()),
            *wanted.access.mounts,
        ],
    }
    found: Document = {
        "containers": [container],
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True},
        "volumes": [
            *({"name": name, "emptyDir": {}} for name in _WRITABLE),
            *wanted.access.volumes,
        ],
    }
    return merging.merged(found, _state(wanted), "") if has_state else found


def _state(wanted: Wanted) -> Document:
    claim = {"claimName": wanted.job.checkpoint.persistent_volume_claim}
    mounts = [{"name": STATE_VOLUME, "mountPath": places.STATE}]
    return {
        "containers": [{"name": merging.CONTAINER, "volumeMounts": mounts}],
        "volumes": [{"name": STATE_VOLUME, "persistentVolumeClaim": claim}],
    }
