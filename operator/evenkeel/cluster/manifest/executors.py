"""
Builds the template from which Spark creates executors' pods.

Spark adds name, image, resources, environment and local folders. It starts the image with the
argument `executor`, and makes the driver's pod the owner of each executor's pod.
"""

from evenkeel.cluster.manifest import pod_paths, pod_templates, pods
from evenkeel.cluster.manifest.names import Document
from evenkeel.cluster.manifest.pods import WantedPods


def build_template(wanted: WantedPods) -> Document:
    """Build the template. It mounts the claim only if a sink writes to the claim."""
    job = wanted.job
    has_state = job.checkpoint.persistent_volume_claim is not None and any(
        sink is not None and pod_paths.is_state(sink.path) for sink in (job.sink, job.dead_letter)
    )
    ours = {
        "metadata": pods.build_metadata(wanted, "executor"),
        "spec": {
            **pods.build_spec(wanted, has_state=has_state),
            "automountServiceAccountToken": False,  # executors never call the API
        },
    }
    path = f"{wanted.group}: spec.job.executor.podTemplate"
    defaults = pods.build_defaults(wanted, has_state=has_state)
    found = pod_templates.merge_pod(job.executor.pod_template, defaults, ours, path)
    return {"apiVersion": "v1", "kind": "Pod", **found}
