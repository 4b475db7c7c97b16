"""What the driver reads: job.json."""

from collections.abc import Mapping

from contract.kinds.jobs import Mode
from contract.names import ASSIGNMENT, REPORT
from evenkeel import job_file
from evenkeel.cluster.manifest import places, settings
from evenkeel.cluster.manifest.names import Document
from evenkeel.cluster.manifest.pods import Wanted
from evenkeel.job_file import Places
from evenkeel.objects import Key, Topic

COUNT, ORIGIN = "executors", "origin"


def document(wanted: Wanted, topics: Mapping[Key, Topic], executor: Document) -> Document:
    """Write it, but for what may change under a running driver: executors, and whose it is."""
    key = wanted.group.head.key
    inside = Places(
        assignments=f"{places.WORK}/{ASSIGNMENT}",
        report=f"{places.WORK}/{REPORT}",
        checkpoint=places.checkpoint(wanted.group, wanted.job),
        files={ref: places.file(ref) for ref in job_file.refs(wanted.group)},
        options={name: places.options(name) for name in job_file.secrets(wanted.group)},
        secrets={"tls": wanted.access.option} if wanted.access.option else {},
    )
    found = job_file.written(wanted.group, topics, inside)
    del found[COUNT], found[ORIGIN]
    found["spark"] = settings.settings(wanted, executor)
    found["metricsPort"] = places.METRICS_PORT
    found["kubernetes"] = {"namespace": key.namespace, "name": key.name}
    return found


def finished(document: Document, origin: str, executors: int) -> Document:
    """
    Add for which object the driver runs, and how many executors there are when it starts.

    By the clock there are none at first: the driver asks for them if there is something to read.
    """
    count = max(executors, 1)
    at_first = 0 if document["mode"] == Mode.SCHEDULED.value else count
    spark = document["spark"] | {settings.INSTANCES: str(at_first)}
    return document | {ORIGIN: origin, COUNT: count, "spark": spark}
