"""Where things are inside a job's pods: paths and ports."""

from contract.kinds.jobs import Job
from contract.kinds.parts import KeyRef
from evenkeel.objects import ConsumerGroup

JOB = "/etc/evenkeel"
EXECUTOR_TEMPLATE = "executor.json"
"""JSON, which is YAML too, and the same to all who read it: 12e4 between quotes stays a text."""
FILES = "/etc/evenkeel-files"
"""The users' Python files, in a folder for each ConfigMap."""
OPTIONS = "/etc/evenkeel-options"
"""Options of sinks, in a folder for each Secret."""
AUTHORITIES = "/etc/evenkeel-tls"
AUTHORITIES_FILE = "ca.crt"
STATE = "/state"
"""The claim of `spec.job.checkpoint`."""
WORK = "/work"
"""Where processes start, and what Spark writes beside temporary files."""
TMP = "/tmp"  # noqa: S108 a volume of the pod's own
DRIVER_PORT = 7078
BLOCKS_PORT = 7079
METRICS_PORT = 8090


def file(ref: KeyRef) -> str:
    """Find one of the users' files."""
    return f"{FILES}/{ref.name}/{ref.key}"


def options(secret: str) -> str:
    """Find the options that a Secret holds."""
    return f"{OPTIONS}/{secret}"


def checkpoint(group: ConsumerGroup, job: Job) -> str:
    """Find the checkpoint; one claim may hold those of several groups."""
    return job.checkpoint.url or f"file://{STATE}/checkpoints/{group.head.key.name}"


def is_state(path: str | None) -> bool:
    """Whether a path lies in the claim."""
    plain = "/" + (path or "").removeprefix("file:").lstrip("/")
    return path is not None and f"{plain}/".startswith(f"{STATE}/")
