"""The common parts of the pods of driver and executors."""

from dataclasses import dataclass

from contract.kinds.jobs import Job
from contract.names import ROLE_LABEL
from evenkeel import times
from evenkeel.cluster.manifest import names, pod_paths, pod_templates
from evenkeel.cluster.manifest.names import Document
from evenkeel.cluster.manifest.rocketmq_access import ClusterAccess
from evenkeel.objects import ConsumerGroup

STATE_VOLUME = "evenkeel-state"
BEYOND_FETCH_SECONDS = 90
"""Time after the fetch deadline to write a batch, and for the driver to report it."""
STATE_GROUP = 185
"""Default group of the files in the claim. The number has no meaning."""
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}
_WRITABLE = {"evenkeel-tmp": pod_paths.TMP, "evenkeel-work": pod_paths.WORK}


@dataclass(frozen=True, slots=True)
class WantedPods:
    """A job, with everything from which its pods are built."""

    group: ConsumerGroup
    job: Job
    image: str
    access: ClusterAccess

    @property
    def stop_seconds(self) -> int:
        """How long a stopping pod may take to finish its batch."""
        return int(times.parse_duration(self.job.fetch_deadline)) + BEYOND_FETCH_SECONDS


def build_defaults(wanted: WantedPods, *, has_state: bool) -> Document:
    """Build the defaults that a user's template may change."""
    security: Document = {"seccompProfile": {"type": "RuntimeDefault"}}
    if has_state:
        security |= {"fsGroup": STATE_GROUP, "fsGroupChangePolicy": "OnRootMismatch"}
    spec = {
        "containers": [{"name": pod_templates.CONTAINER, "imagePullPolicy": "IfNotPresent"}],
        "enableServiceLinks": False,
        "securityContext": security,
        "terminationGracePeriodSeconds": wanted.stop_seconds,
    }
    return {"metadata": {}, "spec": spec}


def build_metadata(wanted: WantedPods, role: str) -> Document:
    """Build the labels of a pod."""
    labels = names.build_labels(wanted.group) | {ROLE_LABEL: role}
    return {"labels": labels, "annotations": {}}


def build_spec(wanted: WantedPods, *, has_state: bool) -> Document:
    """Build the part of the spec that drivers and executors share."""
    container = {
        "name": pod_templates.CONTAINER,
        "workingDir": pod_paths.WORK,
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
    return pod_templates.merge(found, _build_state(wanted), "") if has_state else found


def _build_state(wanted: WantedPods) -> Document:
    claim = {"claimName": wanted.job.checkpoint.persistent_volume_claim}
    mounts = [{"name": STATE_VOLUME, "mountPath": pod_paths.STATE}]
    return {
        "containers": [{"name": pod_templates.CONTAINER, "volumeMounts": mounts}],
        "volumes": [{"name": STATE_VOLUME, "persistentVolumeClaim": claim}],
    }
