"""
The template that Spark makes executors' pods from.

Spark adds name, image, resources, environment and local folders to it, calls the image with the
argument `executor`, and lets the driver's pod own them.
"""

from evenkeel.cluster.manifest import merging, places, pods
from evenkeel.cluster.manifest.names import Document
from evenkeel.cluster.manifest.pods import Wanted


def template(wanted: Wanted) -> Document:
    """Make it. Executors see the claim only where a sink writes to it, for not all can share."""
    job = wanted.job
    has_state = job.checkpoint.persistent_volume_claim is not None and any(
        sink is not None and places.is_state(sink.path) for sink in (job.sink, job.dead_letter)
    )
    ours = {
        "metadata": pods.metadata(wanted, "executor"),
        "spec": {
            **pods.spec(wanted, has_state=has_state),
            "automountServiceAccountToken": False,  # they never call the API
        },
    }
    path = f"{wanted.group}: spec.job.executor.podTemplate"
    defaults = pods.defaults(wanted, has_state=has_state)
    found = merging.pod(job.executor.pod_template, defaults, ours, path)
    return {"apiVersion": "v1", "kind": "Pod", **found}
