"""Names by which operator, jobs and people find the same thing: annotations, labels, entries."""

from contract.kinds import parts

API_VERSION = f"{parts.GROUP}/{parts.VERSION}"

PAUSED = "evenkeel.dev/paused"
"""Annotation of a ConsumerGroup: `true` keeps queues where they are."""
RESTART = "evenkeel.dev/restart"
"""Annotation of a ConsumerGroup: a new value starts its job anew."""
REBALANCE = "evenkeel.dev/rebalance"
"""Annotation of a ConsumerGroup: a new value asks for one plan at once."""
DRAIN = "evenkeel.dev/drain"
"""Annotation of a ConsumerGroup: names of the pods that must be emptied, with commas."""
SKIP = "evenkeel.dev/skip"
"""Annotation of a ConsumerGroup: a new value passes over lost messages once."""
RESTART_HASH = "evenkeel.dev/restart-hash"
"""Annotation of the driver's pod: another value means that it must be made anew."""
ASKED_HASH = "evenkeel.dev/asked-hash"
"""Annotation of the driver's pod: what its user had asked for when it was made."""

LAST_REBALANCE = "evenkeel.dev/last-rebalance"
"""Annotation of an Event: the rebalance that it reports, as `status.lastRebalance` shows it."""

GROUP_LABEL = "evenkeel.dev/group"
"""Label of all objects of a ConsumerGroup: its name."""
ROLE_LABEL = "spark-role"
"""Spark gives executors this label, with the value `executor`."""
EXECUTOR_ID_LABEL = "spark-exec-id"
"""The label that Spark gives an executor's pod."""
DRIVER, EXECUTOR = "driver", "executor"
"""Values of ROLE_LABEL."""

JOB = "job.json"
"""The job file, and its entry in the job's ConfigMap."""
ASSIGNMENT = "assignment.json"
"""The file that a job follows."""
REPORT = "report.json"
"""The report, and its entry in the driver's ConfigMap."""
SLICE = "assignments.json"
"""The entry of a ConfigMap that holds a part of an assignment."""

POD_UID = "EVENKEEL_POD_UID"
ACCESS_KEY, SECRET_KEY = "EVENKEEL_ACCESS_KEY", "EVENKEEL_SECRET_KEY"
"""Environment of a job's pods: who the driver is, and the credentials for the brokers."""


def name_driver(group: str) -> str:
    """Name a ConsumerGroup's driver: its pod, its Lease, and the ConfigMap with its report."""
    return f"{group}-driver"


def select_executors(group: str) -> str:
    """Select the executors' pods of a ConsumerGroup."""
    return f"{GROUP_LABEL}={group},{ROLE_LABEL}={EXECUTOR}"


def split_names(text: str) -> list[str]:
    """Read the names in an annotation such as DRAIN, in order."""
    return sorted({name.strip() for name in text.split(",")} - {""})
