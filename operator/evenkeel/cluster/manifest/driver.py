"""The driver's pod."""

from typing import Any

from contract.kinds.parts import KeyRef
from contract.names import JOB, POD_UID
from evenkeel import job_file
from evenkeel.cluster.manifest import merging, names, places, pods
from evenkeel.cluster.manifest.names import Document
from evenkeel.cluster.manifest.pods import Wanted

_JOB, _FILES, _OPTIONS = "evenkeel-job", "evenkeel-files", "evenkeel-options"
_FROM_THE_POD = {POD_UID: "metadata.uid", "SPARK_LOCAL_HOSTNAME": "status.podIP"}
"""The second is where Spark listens, and where executors call: a pod's name leads nobody there."""
_PORTS = {
    "driver": places.DRIVER_PORT,
    "blocks": places.BLOCKS_PORT,
    "metrics": places.METRICS_PORT,
}


def pod(wanted: Wanted) -> Document:
    """Make it, but for the annotation that tells when to make it anew."""
    has_state = wanted.job.checkpoint.persistent_volume_claim is not None
    ours: Document = {
        "metadata": pods.metadata(wanted, "driver"),
        "spec": merging.merged(pods.spec(wanted, has_state=has_state), _spec(wanted), ""),
    }
    template = wanted.job.driver.pod_template
    path = f"{wanted.group}: spec.job.driver.podTemplate"
    found = merging.pod(template, pods.defaults(wanted, has_state=has_state), ours, path)
    owned = names.metadata(wanted.group, names.driver(wanted.group))
    metadata = owned | found["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": found["spec"]}


def _spec(wanted: Wanted) -> Document:
    refs = sorted(set(job_file.refs(wanted.group)), key=lambda ref: (ref.name, ref.key))
    secrets = list(enumerate(job_file.secrets(wanted.group)))
    process = wanted.job.driver
    container = {
        "name": merging.CONTAINER,
        "image": wanted.image,
        "args": ["driver", f"{places.JOB}/{JOB}"],  # the image's entry point takes it
        "env": [_downward(name, field) for name, field in _FROM_THE_POD.items()],
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port in _PORTS.items()
        ],
        "resources": {
            "requests": {"cpu": str(process.cores), "memory": process.memory},
            "limits": {"memory": process.memory},
        },
        "volumeMounts": [
            {"name": _JOB, "mountPath": places.JOB, "readOnly": True},
            *({"name": _FILES, "mountPath": places.FILES, "readOnly": True} for _ in refs[:1]),
            *(
                {"name": f"{_OPTIONS}-{n}", "mountPath": places.options(name), "readOnly": True}
                for n, name in secrets
            ),
        ],
    }
    return {
        "automountServiceAccountToken": True,
        "containers": [container],
        "serviceAccountName": names.driver(wanted.group),
        "volumes": [
            {"name": _JOB, "configMap": {"name": names.job(wanted.group)}},
            *({"name": _FILES, "projected": {"sources": _sources(refs)}} for _ in refs[:1]),
            *({"name": f"{_OPTIONS}-{n}", "secret": {"secretName": name}} for n, name in secrets),
        ],
    }


def _downward(name: str, field: str) -> Document:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def _sources(refs: list[KeyRef]) -> list[dict[str, Any]]:
    """Bring in the users' files and nothing else of their ConfigMaps, in a folder for each."""
    return [
        {
            "configMap": {
                "name": ref.name,
                "items": [{"key": ref.key, "path": f"{ref.name}/{ref.key}"}],
            }
        }
        for ref in refs
    ]
