"""
A job's driver as a child process, with Spark's local-cluster as executors.

It ends with this process, however that ends, and its JVM and executors follow it.
"""

import asyncio
import contextlib
import ctypes
import importlib.util
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from evenkeel.api.jobs import Process
from evenkeel.control import backoff
from evenkeel.control.backoff import Ending
from evenkeel.control.seen import JobSeen, JobState, Report, Seat
from evenkeel.errors import EvenkeelError
from evenkeel.job_file import Document

log = logging.getLogger("evenkeel")
SPARE = 1
"""Executors that a local cluster can have more than the job begins with; it cannot grow."""
STOP_SECONDS = 60.0
HEAP_SHARE = 0.6
"""Of an executor's memory; the rest is for Python and for Java's own needs."""
LEAST_HEAP_MIB = 480
_LIBC = ctypes.CDLL(None)
_SET_SIGNAL_AT_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
_MIB = {"": 2**-20, "k": 1000 / 2**20, "M": 10**6 / 2**20, "G": 10**9 / 2**20}
_MIB |= {"Ki": 2**-10, "Mi": 1.0, "Gi": 1024.0}


class MissingToolError(EvenkeelError):
    """Something that embedded mode needs is not installed."""


class Driver:
    """Runs one job for as long as it is wanted."""

    def __init__(self, folder: Path, changed: Callable[[], None]) -> None:
        """Start nothing yet. `changed` is called when `seen` is another one."""
        self.folder = folder
        self.seen = JobSeen(JobState.ENDED, "it was not started yet")
        self.rows: Mapping[str, int] = {}
        """Rows that each slot has pulled."""
        self._changed = changed
        self._wanted: tuple[Document, int] | None = None
        self._running: tuple[Document, int] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._stopping = False
        self._failed: Document | None = None
        """What ended for good; it starts again only as another one."""
        self._failures = 0
        self._retry: asyncio.TimerHandle | None = None
        self._stamp: tuple[int, int] | None = None

    @property
    def pid(self) -> int | None:
        """Its process, while there is one."""
        return self._process.pid if self._process else None

    @property
    def log(self) -> Path:
        """Where it writes what it does."""
        return self.folder / "log"

    def keep(self, job: Document | None, executors: int = 0) -> None:
        """Let this job run, and no other; None: no job."""
        self._wanted = (job, executors) if job is not None else None
        if self._process is not None:
            if not self._is_as_wanted() and not self._stopping:
                self._stopping = True
                self._process.terminate()
        elif self._retry is None or self._is_another():
            self._start_if_wanted()

    def refuse(self, message: str) -> None:
        """Say that the job cannot be made, and let none run."""
        self.keep(None)
        self._see(JobSeen(JobState.FAILED, message))

    async def stop(self) -> None:
        """End it after its batch; one that takes too long is killed."""
        self.keep(None)
        if self._retry is not None:
            self._retry.cancel()
        if self._watch is None:
            return
        done, _ = await asyncio.wait([self._watch], timeout=STOP_SECONDS)
        if not done and self._process is not None:
            self._process.kill()
            await asyncio.wait([self._watch])

    def look(self) -> None:
        """Read the report, if there is a new one."""
        path = self.folder / "report.json"
        with contextlib.suppress(FileNotFoundError):
            facts = path.stat()
            stamp = (facts.st_mtime_ns, facts.st_ino)
            if self._process is None or stamp == self._stamp:
                return
            self._stamp = stamp
            found = json.loads(path.read_text(encoding="utf-8"))
            self.rows = found.get("rows", {})
            if "slots" in found:
                state = JobState.RUNNING if found["slots"] else JobState.STARTING
                self._see(JobSeen(state, "", _report(found)))

    def _is_as_wanted(self) -> bool:
        if self._wanted is None or self._running is None:
            return False
        (job, executors), (runs, workers) = self._wanted, self._running
        return job == runs and executors <= workers

    def _is_another(self) -> bool:
        return self._wanted is not None and self._wanted[0] != (self._running or (None,))[0]

    def _start_if_wanted(self) -> None:
        if self._wanted is None:
            self._see(JobSeen(JobState.ENDED))
            return
        job, executors = self._wanted
        if job == self._failed:
            return
        self._failed = None
        self._running = (job, executors + SPARE)
        self._see(JobSeen(JobState.STARTING, "the driver starts"))
        self._watch = asyncio.get_running_loop().create_task(self._run(job, executors))

    async def _run(self, job: Document, executors: int) -> None:
        begun = time.monotonic()
        (self.folder / "report.json").unlink(missing_ok=True)
        file = self.folder / "job.json"
        master = {"spark.master": _master(executors + SPARE, job["spark"])}
        whole = {**job, "executors": executors, "spark": {**master, **job["spark"]}}
        file.write_text(json.dumps(whole, indent=2), encoding="utf-8")
        with self.log.open("ab") as log_file:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "spark_jobs.pipeline", str(file),
                env=_environment(), stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file,
                start_new_session=True, preexec_fn=_die_with_parent,
            )  # fmt: skip
        self._stopping = False
        if not self._is_as_wanted():  # it changed while this one was made
            self.keep(*(self._wanted or (None,)))
        code = await self._process.wait()
        self._process, self._watch = None, None
        self._ended(job, Ending(code, time.monotonic() - begun))

    def _ended(self, job: Document, ending: Ending) -> None:
        said = self.seen.report.error if self.seen.report else self._last_error()
        self._stamp = None
        if self._stopping or self._wanted is None or self._wanted[0] != job:
            self._failures = 0
            self._start_if_wanted()
            return
        if ending.ran_seconds > backoff.STEADY_SECONDS:
            self._failures = 0
        pause = backoff.pause(ending, self._failures)
        self._failures += 1
        why = said or f"the driver ended with code {ending.code}; see {self.log}"
        if pause is None:
            self._failed = job
            self._see(JobSeen(JobState.FAILED, why))
            return
        self._see(JobSeen(JobState.BACKING_OFF, f"starts again in {pause:g} s: {why}"))
        self._retry = asyncio.get_running_loop().call_later(pause, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._start_if_wanted()

    def _last_error(self) -> str | None:
        """Read a report that has nothing but the error, as of a job that could not start."""
        with contextlib.suppress(OSError, ValueError):
            found: str | None = json.loads((self.folder / "report.json").read_bytes())["error"]
            return found
        return None

    def _see(self, seen: JobSeen) -> None:
        if seen != self.seen:
            self.seen = seen
            self._changed()


def settings(executor: Process) -> dict[str, str]:
    """Say how Spark shall run on this machine."""
    heap = max(LEAST_HEAP_MIB, int(_mib(executor.memory) * HEAP_SHARE))
    return {
        "spark.executor.cores": str(executor.cores),
        "spark.executor.memory": f"{heap}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": _packages(),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
    }


def refuse_if_missing() -> None:
    """Say what has to be installed, before anything is tried."""
    if importlib.util.find_spec("pyspark") is None:
        raise MissingToolError("jobs need PySpark here: pip install 'evenkeel[spark]'")
    home = os.environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and shutil.which("java") is None:
        raise MissingToolError(
            "jobs need Java 17 or newer: install it (Debian: openjdk-17-jre-headless), or set "
            "JAVA_HOME"
        )


def _report(found: Mapping[str, Any]) -> Report:
    return Report(
        adopted_epoch=found["adoptedEpoch"],
        slots={name: Seat(each["executor"]) for name, each in found["slots"].items()},
        is_pinned=found["pinned"],
        error=found["error"],
    )


def _master(workers: int, spark: Mapping[str, str]) -> str:
    cores = spark["spark.executor.cores"]
    heap = int(spark["spark.executor.memory"].removesuffix("m"))
    return f"local-cluster[{workers},{cores},{heap + 384}]"


def _mib(quantity: str) -> float:
    match = re.fullmatch(r"([0-9.]+)(m|[A-Za-z]*)", quantity)
    assert match is not None  # the schema takes nothing else
    return float(match[1]) * _MIB.get(match[2], 2**-20 / 1000)


def _packages() -> str:
    """Find where the executors' Python finds our packages."""
    found = importlib.util.find_spec("spark_jobs")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parents[1])


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": _packages(),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_SCALA_VERSION": "2.13",  # executors of a local cluster look for jars by it
    }


def _die_with_parent() -> None:
    _LIBC.prctl(_SET_SIGNAL_AT_PARENTS_DEATH, signal.SIGKILL)


def written(path: Path, document: object) -> None:
    """Write a file that readers see whole, or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(msgspec.json.encode(document))
    part.replace(path)
