"""
Runs the measured programs of all benchmarks.

Each is a separate process, which reads its work from standard input and answers in lines of JSON.
"""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sandbox import jars

ROCKETMQ = "org.apache.rocketmq:rocketmq-client:5.4.0"
_LAST_LINES = 15
_SECONDS_TO_LEAVE = 30


class ProgramFailedError(Exception):
    """A measured program ended too early, or did not do what was requested."""


@dataclass(frozen=True, slots=True)
class Process:
    """A running program."""

    name: str
    popen: subprocess.Popen[str]
    log: IO[str]

    def wait(self) -> int:
        """Wait until the program ends, and return its exit code."""
        return self.popen.wait(_SECONDS_TO_LEAVE)

    def make_failure(self, how: str) -> ProgramFailedError:
        """Make an error with the end of the program's log."""
        self.log.seek(0)
        end = "".join(self.log.readlines()[-_LAST_LINES:])
        return ProgramFailedError(f"{self.name} {how}:\n{end}")


@contextlib.contextmanager
def start(name: str, command: Sequence[str], told: IO[str] | int) -> Iterator[Process]:
    """Run a program with a file or a pipe as input. It is killed when the context is left."""
    with tempfile.TemporaryFile("w+", errors="replace") as log, subprocess.Popen(
        command, stdin=told, stdout=subprocess.PIPE, stderr=log, text=True
    ) as popen:  # fmt: skip
        try:
            yield Process(name, popen, log)
        finally:
            popen.kill()


def jvm(sources: Path, libraries: Sequence[str], heap: str, *program: str) -> list[str]:
    """
    Compile the Java files of a folder. Return the command that runs one of its programs.

    The heap has its full size from the start: if it grew during a measurement, the first figures
    would be wrong.
    """
    jar_files = os.pathsep.join(jars.fetch_classpath(each) for each in libraries)
    classes = jars.compile_sources(list(sources.glob("*.java")), jar_files)
    return [
        str(jars.find_java()),
        f"-Xms{heap}",
        f"-Xmx{heap}",
        # Without this, RocketMQ writes a log to the home folder.
        f"-Drocketmq.log.root={tempfile.gettempdir()}/evenkeel-bench",
        "-cp",
        f"{classes}{os.pathsep}{jar_files}",
        *program,
    ]
