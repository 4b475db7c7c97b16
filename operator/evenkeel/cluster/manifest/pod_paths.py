"""Paths and ports inside a job's pods."""

from contract.kinds.jobs import Job
from contract.kinds.parts import KeyRef
from evenkeel.objects import ConsumerGroup

JOB = "/etc/evenkeel"
EXECUTOR_TEMPLATE = "executor.json"
"""
The file with the executors' template. It is JSON, which all YAML parsers read in the same way: for
example, "12e4" is a string.
"""
FILES = "/etc/evenkeel-files"
"""The users' Python files, with a folder for each ConfigMap."""
OPTIONS = "/etc/evenkeel-options"
"""Options of sinks, with a folder for each Secret."""
AUTHORITIES = "/etc/evenkeel-tls"
AUTHORITIES_FILE = "ca.crt"
STATE = "/state"
"""Where the claim of `spec.job.checkpoint` is mounted."""
WORK = "/work"
"""The working directory of the processes."""
TMP = "/tmp"  # noqa: S108 a volume of the pod's own
DRIVER_PORT = 7078
BLOCKS_PORT = 7079
METRICS_PORT = 8090


def find_file(ref: KeyRef) -> str:
    """Find the path of a user's file."""
    return f"{FILES}/{ref.name}/{ref.key}"


def find_options(secret: str) -> str:
    """Find the path of the options in a Secret."""
    return f"{OPTIONS}/{secret}"


def find_checkpoint(group: ConsumerGroup, job: Job) -> str:
    """Find the URL of the checkpoint. A claim may hold the checkpoints of several groups."""
    return job.checkpoint.url or f"file://{STATE}/checkpoints/{group.head.key.name}"


def is_state(path: str | None) -> bool:
    """Whether a path is in the mounted claim."""
    plain = "/" + (path or "").removeprefix("file:").lstrip("/")
    return path is not None and f"{plain}/".startswith(f"{STATE}/")
