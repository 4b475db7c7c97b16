#!/opt/evenkeel/venv/bin/python
"""
Starts the program of a container: `driver FILE`, `executor`, or `--version`.

Spark calls this script with `executor`, and passes everything else in environment variables whose
names begin with SPARK_. The driver or executor replaces this process, so that it receives the
container's signals.
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
"""Variables with class paths of the user, which come before Spark's own."""
SETTINGS = ("HADOOP_CONF_DIR", "SPARK_CONF_DIR")
"""Variables with folders of settings. They may come last: no jar of Spark has the same files."""
ARCHIVE = Path("/opt/evenkeel/classes.jsa")
"""An archive of classes that `images/spark/archive` has made, so that Java starts faster."""
ARCHIVED = Path("/opt/evenkeel/classpath")
"""A file with the class path that Java needs for the archive. More entries may follow it."""
LIBRARIES = "SPARK_EXECUTOR_LIBRARY_PATH"


class UsageError(Exception):
    """The command line or the environment is wrong."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Turn this process into the requested program."""
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
    """Return the command of the requested program."""
    match arguments:
        case ["driver", *rest]:
            return ["python", "-m", "spark_jobs.pipeline", *rest]
        case ["executor"]:
            return executor(environment)
        case _:
            asked = " ".join(arguments)
            raise UsageError(f"'{asked}' is none of `driver FILE`, `executor`, `--version`")


def executor(environment: Mapping[str, str]) -> list[str]:
    """Return the command that starts the executor which Spark describes."""
    missing = [name for name in (*ARGUMENTS.values(), MEMORY) if name not in environment]
    if missing:
        raise UsageError(
            f"the environment lacks {', '.join(missing)}; only Spark starts executors, and it sets "
            "these variables"
        )
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
    """List Java's options in the order of the numbers that Spark has given them."""
    found = (name for name in environment if name.startswith(JAVA_OPTION))
    return [environment[name] for name in sorted(found, key=_number)]


def _number(name: str) -> int:
    return int(name.removeprefix(JAVA_OPTION))


if __name__ == "__main__":
    main(sys.argv[1:])
