"""Builds the driver's pod."""

from typing import Any

from contract.kinds.parts import KeyRef
from contract.names import JOB, POD_UID
from evenkeel import job_file
from evenkeel.cluster.manifest import names, pod_paths, pod_templates, pods
from evenkeel.cluster.manifest.names import Document
from evenkeel.cluster.manifest.pods import WantedPods

_JOB, _FILES, _OPTIONS = "evenkeel-job", "evenkeel-files", "evenkeel-options"
_FROM_THE_POD = {POD_UID: "metadata.uid", "SPARK_LOCAL_HOSTNAME": "status.podIP"}
"""
Environment variables from the pod's own fields. Spark listens on SPARK_LOCAL_HOSTNAME, which is an
address, because executors cannot resolve the name of a pod.
"""
_REQUEST = "spark.kubernetes.driver.request.cores"
"""Spark's own setting. In client mode, Spark does not create the pod, and ignores this setting."""
_PORTS = {
    "driver": pod_paths.DRIVER_PORT,
    "blocks": pod_paths.BLOCKS_PORT,
    "metrics": pod_paths.METRICS_PORT,
}


def build_pod(wanted: WantedPods) -> Document:
    """Build the driver's pod, without the annotation that contains its fingerprint."""
    has_state = wanted.job.checkpoint.persistent_volume_claim is not None
    ours: Document = {
        "metadata": pods.build_metadata(wanted, "driver"),
        "spec": pod_templates.merge(
            pods.build_spec(wanted, has_state=has_state), _build_spec(wanted), ""
        ),
    }
    template = wanted.job.driver.pod_template
    path = f"{wanted.group}: spec.job.driver.podTemplate"
    found = pod_templates.merge_pod(
        template, pods.build_defaults(wanted, has_state=has_state), ours, path
    )
    owned = names.build_metadata(wanted.group, names.name_driver(wanted.group))
    metadata = owned | found["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": found["spec"]}


def _build_spec(wanted: WantedPods) -> Document:
    refs = sorted(set(job_file.list_refs(wanted.group)), key=lambda ref: (ref.name, ref.key))
    secrets = list(enumerate(job_file.list_secrets(wanted.group)))
    process = wanted.job.driver
    container = {
        "name": pod_templates.CONTAINER,
        "image": wanted.image,
        "args": ["driver", f"{pod_paths.JOB}/{JOB}"],  # for the image's entry point
        "env": [_build_env(name, field) for name, field in _FROM_THE_POD.items()],
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port in _PORTS.items()
        ],
        "resources": {
            "requests": {
                "cpu": wanted.job.spark_conf.get(_REQUEST, str(process.cores)),
                "memory": process.memory,
            },
            "limits": {"memory": process.memory},
        },
        "volumeMounts": [
            {"name": _JOB, "mountPath": pod_paths.JOB, "readOnly": True},
            *({"name": _FILES, "mountPath": pod_paths.FILES, "readOnly": True} for _ in refs[:1]),
            *(
                {
                    "name": f"{_OPTIONS}-{n}",
                    "mountPath": pod_paths.find_options(name),
                    "readOnly": True,
                }
                for n, name in secrets
            ),
        ],
    }
    return {
        "automountServiceAccountToken": True,
        "containers": [container],
        "serviceAccountName": names.name_driver(wanted.group),
        "volumes": [
            {"name": _JOB, "configMap": {"name": names.name_job(wanted.group)}},
            *({"name": _FILES, "projected": {"sources": _list_sources(refs)}} for _ in refs[:1]),
            *({"name": f"{_OPTIONS}-{n}", "secret": {"secretName": name}} for n, name in secrets),
        ],
    }


def _build_env(name: str, field: str) -> Document:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def _list_sources(refs: list[KeyRef]) -> list[dict[str, Any]]:
    """List the users' files as volume sources, with a folder for each ConfigMap."""
    return [
        {
            "configMap": {
                "name": ref.name,
                "items": [{"key": ref.key, "path": f"{ref.name}/{ref.key}"}],
            }
        }
        for ref in refs
    ]
