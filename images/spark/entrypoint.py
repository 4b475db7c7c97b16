#!/opt/evenkeel/venv/bin/python
"""
What a container of this image runs: `driver FILE`, `executor`, or `--version`.

Spark calls it with `executor`, and says all else in variables whose names begin with SPARK_. Driver
and executor replace this process, so signals reach them.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NoReturn

USAGE_ERROR = 64
BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
MEMORY = "SPARK_EXECUTOR_MEMORY"
JAVA_OPTION = "SPARK_JAVA_OPT_"
CLASSES = ("SPARK_CLASSPATH",)
"""The user's, which come before Spark's own."""
SETTINGS = ("HADOOP_CONF_DIR", "SPARK_CONF_DIR")
"""Folders. What is in them is in no jar of Spark's, so they may come after."""
ARCHIVE = Path("/opt/evenkeel/classes.jsa")
"""Of classes that Java need not read from the jars; `images/spark/archive` makes it."""
ARCHIVED = Path("/opt/evenkeel/classpath")
"""The class path that it is good for: these, then any other."""
LIBRARIES = "SPARK_EXECUTOR_LIBRARY_PATH"


class UsageError(Exception):
    """It cannot run like this."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Become what is asked for."""
    if arguments == ["--version"]:
        spark = metadata.version("pyspark")
        sys.stdout.write(f"evenkeel {os.environ['EVENKEEL_VERSION']}, Spark {spark}\n")
        sys.exit(0)
    try:
        command = asked_for(arguments, os.environ)
    except UsageError as error:
        sys.stderr.write(f"evenkeel: {error}\n")
        sys.exit(USAGE_ERROR)
    if LIBRARIES in os.environ:
        os.environ["LD_LIBRARY_PATH"] = os.environ[LIBRARIES]
    os.execvp(command[0], command)  # noqa: S606 no shell is wanted


def asked_for(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Say which program does it, and with which arguments."""
    match arguments:
        case ["driver", *rest]:
            return ["python", "-m", "spark_jobs.pipeline", *rest]
        case ["executor"]:
            return executor(environment)
        case _:
            asked = " ".join(arguments)
            raise UsageError(f"'{asked}' is none of `driver FILE`, `executor`, `--version`")


def executor(environment: Mapping[str, str]) -> list[str]:
    """Say how Java starts the executor that Spark describes."""
    missing = [name for name in (*ARGUMENTS.values(), MEMORY) if name not in environment]
    if missing:
        raise UsageError(f"executors are started by Spark, which would set {', '.join(missing)}")
    before, after = (
        [environment[name] for name in names if environment.get(name)]
        for names in (CLASSES, SETTINGS)
    )
    return [
        "java",
        f"-XX:SharedArchiveFile={ARCHIVE}",
        *java_options(environment),
        f"-Xms{environment[MEMORY]}",
        f"-Xmx{environment[MEMORY]}",
        "-cp",
        ":".join([*before, ARCHIVED.read_text(), *after, f"{environment['SPARK_HOME']}/jars/*"]),
        BACKEND,
        *(text for name, variable in ARGUMENTS.items() for text in (name, environment[variable])),
    ]


def java_options(environment: Mapping[str, str]) -> list[str]:
    """Find them in the order that Spark has given them by number."""
    found = (name for name in environment if name.startswith(JAVA_OPTION))
    return [environment[name] for name in sorted(found, key=_number)]


def _number(name: str) -> int:
    return int(name.removeprefix(JAVA_OPTION))


if __name__ == "__main__":
    main(sys.argv[1:])
