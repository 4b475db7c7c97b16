"""Names that operator, jobs and users share: annotations, labels and entries."""

from contract.kinds import parts

API_VERSION = f"{parts.GROUP}/{parts.VERSION}"

PAUSED = "evenkeel.dev/paused"
"""Annotation of a ConsumerGroup: with `true`, queues keep their owners."""
RESTART = "evenkeel.dev/restart"
"""Annotation of a ConsumerGroup: a new value restarts its job."""
REBALANCE = "evenkeel.dev/rebalance"
"""Annotation of a ConsumerGroup: a new value requests an immediate plan."""
DRAIN = "evenkeel.dev/drain"
"""Annotation of a ConsumerGroup: names of the pods to drain, separated by commas."""
SKIP = "evenkeel.dev/skip"
"""Annotation of a ConsumerGroup: a new value makes the job skip lost messages once."""
RESTART_HASH = "evenkeel.dev/restart-hash"
"""
Annotation of the driver's pod: the pod must be replaced if the operator computes another value.
"""
ASKED_HASH = "evenkeel.dev/asked-hash"
"""Annotation of the driver's pod: a hash of the user's settings when the pod was created."""

LAST_REBALANCE = "evenkeel.dev/last-rebalance"
"""Annotation of an Event: the rebalance that it reports, as `status.lastRebalance` shows it."""

GROUP_LABEL = "evenkeel.dev/group"
"""Label of all objects that belong to a ConsumerGroup. Its value is the group's name."""
ROLE_LABEL = "spark-role"
"""Label of drivers and executors. Spark sets it on executors, with the value `executor`."""
EXECUTOR_ID_LABEL = "spark-exec-id"
"""Label that Spark sets on an executor's pod: the executor's id."""
DRIVER, EXECUTOR = "driver", "executor"
"""Values of ROLE_LABEL."""

JOB = "job.json"
"""The job file, and its entry in the job's ConfigMap."""
ASSIGNMENT = "assignment.json"
"""The file that a job follows."""
REPORT = "report.json"
"""The file with the report, and its entry in the driver's ConfigMap."""
SLICE = "assignments.json"
"""The entry of a ConfigMap that contains a part of an assignment."""

FLOW_PORT = 7080
"""The port at which the driver of a flow talks with its tasks, if the driver runs in a pod."""

POD_UID = "EVENKEEL_POD_UID"
ACCESS_KEY, SECRET_KEY = "EVENKEEL_ACCESS_KEY", "EVENKEEL_SECRET_KEY"
"""Environment variables of a job's pods: credentials for the brokers."""


def name_driver(group: str) -> str:
    """Return the name of a driver's pod, of its Lease, and of the ConfigMap with its report."""
    return f"{group}-driver"


def select_executors(group: str) -> str:
    """Return the label selector for the executors' pods of a ConsumerGroup."""
    return f"{GROUP_LABEL}={group},{ROLE_LABEL}={EXECUTOR}"


def split_names(text: str) -> list[str]:
    """Split the names in an annotation such as DRAIN, and sort them."""
    return sorted({name.strip() for name in text.split(",")} - {""})
