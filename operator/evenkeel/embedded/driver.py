"""
Runs a job's driver as a child process, with executors in Spark's local-cluster mode.

However this process ends, the driver, its JVM and its executors end too.
"""

import asyncio
import contextlib
import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from contract import job_file, names
from contract import report as contract_report
from contract.job_file import JobFile
from contract.kinds.jobs import Process
from contract.report import DriverReport, Filler
from evenkeel import quantities, times
from evenkeel.control.jobs.states import (
    ABSENT,
    DriverSeen,
    DriverState,
    Ending,
    Report,
    SlotExecutor,
)
from evenkeel.errors import EvenkeelError

SPARE = 1
"""Number of spare executors. They are needed because a local cluster cannot grow later."""
STOP_SECONDS = 60.0
RATE_SECONDS = 5.0
HEAP_SHARE = 0.6
"""
Share of an executor's memory for the heap. Python and the rest of the JVM use the remaining memory.
"""
LEAST_HEAP_MIB = 480
_LIBC = ctypes.CDLL(None)
_SET_SIGNAL_AT_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>


class MissingToolError(EvenkeelError):
    """A tool that embedded mode needs is not installed."""


class EmbeddedDriver:
    """One job's driver. After it has ended, `clear` makes it ready for another start."""

    def __init__(self, folder: Path, changed: Callable[[], None]) -> None:
        """Prepare the driver without a process. `changed` is called when `seen` has changed."""
        self.folder = folder
        self.seen = ABSENT
        self.workers = 0
        """The number of workers of the local cluster."""
        self._rows: deque[tuple[float, Mapping[str, int]]] = deque()
        """The times of the last reports, and the rows that each slot had pulled by then."""
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._stamp: tuple[int, int] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while the driver runs."""
        return self._process.pid if self._process else None

    @property
    def log(self) -> Path:
        """The driver's log file."""
        return self.folder / "log"

    def choose_executor_count(self, executors: int) -> int:
        """Return the current number of workers if it is enough, otherwise a number with spares."""
        return self.workers if executors <= self.workers else executors + SPARE

    async def start(self, job: JobFile, identity: str) -> None:
        """Start the driver."""
        self.workers = int(job.spark["spark.evenkeel.workers"])
        self._stamp = None
        self._rows.clear()
        (self.folder / names.REPORT).unlink(missing_ok=True)
        file = self.folder / names.JOB
        master = {"spark.master": _build_master(self.workers, job.spark)}
        whole = msgspec.structs.replace(job, spark=master | job.spark)
        write_private(file, job_file.encode(whole))  # it contains the credentials
        with self.log.open("ab") as log_file:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "spark_jobs.pipeline", str(file),
                env=_build_environment(), stdin=subprocess.DEVNULL, stdout=log_file,
                stderr=log_file, start_new_session=True, preexec_fn=_die_with_parent,
            )  # fmt: skip
        self._watch = asyncio.create_task(self._wait_for_end(self._process, identity))
        self._see(DriverSeen(DriverState.STARTING, identity))

    def stop(self) -> None:
        """Tell the driver to end after its batch."""
        if self._process is not None and self.seen.state is not DriverState.STOPPING:
            self._process.terminate()
            self._see(replace(self.seen, state=DriverState.STOPPING))

    def clear(self) -> None:
        """Forget the ended driver."""
        self._see(ABSENT)

    async def end(self) -> None:
        """End the driver, by force if its batch takes too long."""
        if self._watch is None or self._process is None:
            return
        self.stop()
        done, _ = await asyncio.wait([self._watch], timeout=STOP_SECONDS)
        if not done:
            self._process.kill()
            await asyncio.wait([self._watch])

    def look(self) -> None:
        """Read the report if it has changed."""
        path = self.folder / names.REPORT
        if self._process is None:
            return
        with contextlib.suppress(FileNotFoundError):
            facts = path.stat()
            stamp = (facts.st_mtime_ns, facts.st_ino)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            found = contract_report.read(path.read_bytes())
            if found.slots is not None:
                self._rows.append((time.monotonic(), found.rows))
                is_told = self.seen.state is DriverState.STOPPING
                state = DriverState.STOPPING if is_told else DriverState.RUNNING
                seen = replace(self.seen, state=state, report=_to_report(found, found.slots))
                self._see(replace(seen, skipped=found.skipped))

    def rate(self, slot: str) -> float:
        """Compute how many rows a second a slot has pulled recently."""
        now = time.monotonic()
        while len(self._rows) > 1 and now - self._rows[0][0] > RATE_SECONDS:
            self._rows.popleft()
        if len(self._rows) < 2:
            return 0.0
        (begun, first), (ended, last) = self._rows[0], self._rows[-1]
        return max(0.0, (last.get(slot, 0) - first.get(slot, 0)) / (ended - begun))

    async def _wait_for_end(self, process: asyncio.subprocess.Process, identity: str) -> None:
        begun = time.monotonic()
        code = await process.wait()
        self._process = None
        last = self._read_last_report()
        message = last.error or f"the driver ended with code {code}; see {self.log}"
        now, ran = times.format_time(datetime.now(UTC)), time.monotonic() - begun
        ending = Ending(code, now, ran, message if code else "")
        self._see(DriverSeen(DriverState.ENDED, identity, ending=ending, skipped=last.skipped))

    def _read_last_report(self) -> DriverReport:
        """Read the driver's last report; an empty report if there is none."""
        with contextlib.suppress(OSError, ValueError):
            return contract_report.read((self.folder / names.REPORT).read_bytes())
        return DriverReport()

    def _see(self, seen: DriverSeen) -> None:
        if seen != self.seen:
            self.seen = seen
            self._changed()


def build_settings(executor: Process, workers: int) -> dict[str, str]:
    """Build Spark's settings for this machine."""
    heap = max(LEAST_HEAP_MIB, int(quantities.parse_mib(executor.memory) * HEAP_SHARE))
    return {
        "spark.evenkeel.workers": str(workers),
        "spark.executor.cores": str(executor.cores),
        "spark.executor.memory": f"{heap}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": _find_packages(),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
    }


def refuse_if_missing() -> None:
    """Raise an error if a required tool is missing. The error tells how to install the tool."""
    if importlib.util.find_spec("pyspark") is None:
        raise MissingToolError("jobs need PySpark: in Evenkeel's checkout, pip install '.[spark]'")
    home = os.environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and shutil.which("java") is None:
        raise MissingToolError(
            "jobs need Java 17 or newer: install it (Debian: openjdk-17-jre-headless), or set "
            "JAVA_HOME"
        )


def _to_report(found: DriverReport, slots: Mapping[str, Filler]) -> Report:
    seats = {name: SlotExecutor(each.executor) for name, each in slots.items()}
    return Report(
        adopted_epoch=found.adopted_epoch,
        slots=seats,
        is_pinned=found.pinned,
        engine=found.engine,
        error=found.error,
        coming=frozenset(found.executors) - {seat.executor for seat in seats.values()},
    )


def _build_master(workers: int, spark: Mapping[str, str]) -> str:
    cores = spark["spark.executor.cores"]
    heap = int(spark["spark.executor.memory"].removesuffix("m"))
    return f"local-cluster[{workers},{cores},{heap + 384}]"


def _find_packages() -> str:
    """Find the folder that contains Evenkeel's packages, for the executors' Python."""
    found = importlib.util.find_spec("spark_jobs")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parents[1])


def _build_environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": _find_packages(),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_SCALA_VERSION": "2.13",  # executors need it to find their jars
    }


def _die_with_parent() -> None:
    _LIBC.prctl(_SET_SIGNAL_AT_PARENTS_DEATH, signal.SIGKILL)


def write_private(path: Path, text: str) -> None:
    """Write a file that no other user can read, even if the file existed before."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(text, encoding="utf-8")


def write_atomically(path: Path, document: object) -> None:
    """Write a file atomically."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(msgspec.json.encode(document))
    part.replace(path)
