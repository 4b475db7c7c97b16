"""
A job's driver as a child process, with Spark's local-cluster as executors.

It ends with this process, however that ends, and its JVM and executors follow it.
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
from evenkeel.control.jobs.states import ABSENT, DriverSeen, DriverState, Ending, Report, Seat
from evenkeel.errors import EvenkeelError

SPARE = 1
"""Executors that a local cluster can have more than the job begins with; it cannot grow."""
STOP_SECONDS = 60.0
RATE_SECONDS = 5.0
HEAP_SHARE = 0.6
"""Of an executor's memory; the rest is for Python and for Java's own needs."""
LEAST_HEAP_MIB = 480
_LIBC = ctypes.CDLL(None)
_SET_SIGNAL_AT_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>


class MissingToolError(EvenkeelError):
    """Something that embedded mode needs is not installed."""


class EmbeddedDriver:
    """One job's driver. It is started, ends, is cleared away, and may then be started again."""

    def __init__(self, folder: Path, changed: Callable[[], None]) -> None:
        """Start nothing yet. `changed` is called when `seen` is another one."""
        self.folder = folder
        self.seen = ABSENT
        self.workers = 0
        """How many executors there is room for."""
        self._rows: deque[tuple[float, Mapping[str, int]]] = deque()
        """Rows that each slot has pulled, as the last reports say."""
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._stamp: tuple[int, int] | None = None

    @property
    def pid(self) -> int | None:
        """Its process, while there is one."""
        return self._process.pid if self._process else None

    @property
    def log(self) -> Path:
        """Where it writes what it does."""
        return self.folder / "log"

    def room_for(self, executors: int) -> int:
        """Tell how many workers it takes: those that there are, if they are enough."""
        return self.workers if executors <= self.workers else executors + SPARE

    async def start(self, job: JobFile, identity: str) -> None:
        """Start it."""
        self.workers = int(job.spark["spark.evenkeel.workers"])
        self._stamp = None
        self._rows.clear()
        (self.folder / names.REPORT).unlink(missing_ok=True)
        file = self.folder / names.JOB
        master = {"spark.master": _master(self.workers, job.spark)}
        whole = msgspec.structs.replace(job, spark=master | job.spark)
        write_private(file, job_file.encode(whole))  # it holds the credentials
        with self.log.open("ab") as log_file:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "spark_jobs.pipeline", str(file),
                env=_environment(), stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file,
                start_new_session=True, preexec_fn=_die_with_parent,
            )  # fmt: skip
        self._watch = asyncio.create_task(self._until_ended(self._process, identity))
        self._see(DriverSeen(DriverState.STARTING, identity))

    def stop(self) -> None:
        """Tell it to end after its batch."""
        if self._process is not None and self.seen.state is not DriverState.STOPPING:
            self._process.terminate()
            self._see(replace(self.seen, state=DriverState.STOPPING))

    def clear(self) -> None:
        """Be ready for the next one."""
        self._see(ABSENT)

    async def ended(self) -> None:
        """End it, by force if its batch takes too long."""
        if self._watch is None or self._process is None:
            return
        self.stop()
        done, _ = await asyncio.wait([self._watch], timeout=STOP_SECONDS)
        if not done:
            self._process.kill()
            await asyncio.wait([self._watch])

    def look(self) -> None:
        """Read the report, if there is a new one."""
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
                seen = replace(self.seen, state=state, report=_report(found, found.slots))
                self._see(replace(seen, skipped=found.skipped))

    def rate(self, slot: str) -> float:
        """Tell how many rows a second a slot has pulled in the last seconds."""
        now = time.monotonic()
        while len(self._rows) > 1 and now - self._rows[0][0] > RATE_SECONDS:
            self._rows.popleft()
        if len(self._rows) < 2:
            return 0.0
        (begun, first), (ended, last) = self._rows[0], self._rows[-1]
        return max(0.0, (last.get(slot, 0) - first.get(slot, 0)) / (ended - begun))

    async def _until_ended(self, process: asyncio.subprocess.Process, identity: str) -> None:
        begun = time.monotonic()
        code = await process.wait()
        self._process = None
        last = self._last_report()
        message = last.error or f"the driver ended with code {code}; see {self.log}"
        now, ran = times.shown(datetime.now(UTC)), time.monotonic() - begun
        ending = Ending(code, now, ran, message if code else "")
        self._see(DriverSeen(DriverState.ENDED, identity, ending=ending, skipped=last.skipped))

    def _last_report(self) -> DriverReport:
        """Read what the driver reported last; nothing if it did not."""
        with contextlib.suppress(OSError, ValueError):
            return contract_report.read((self.folder / names.REPORT).read_bytes())
        return DriverReport()

    def _see(self, seen: DriverSeen) -> None:
        if seen != self.seen:
            self.seen = seen
            self._changed()


def settings(executor: Process, workers: int) -> dict[str, str]:
    """Say how Spark shall run on this machine."""
    heap = max(LEAST_HEAP_MIB, int(quantities.mib(executor.memory) * HEAP_SHARE))
    return {
        "spark.evenkeel.workers": str(workers),
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


def _report(found: DriverReport, slots: Mapping[str, Filler]) -> Report:
    seats = {name: Seat(each.executor) for name, each in slots.items()}
    return Report(
        adopted_epoch=found.adopted_epoch,
        slots=seats,
        is_pinned=found.pinned,
        error=found.error,
        coming=frozenset(found.executors) - {seat.executor for seat in seats.values()},
    )


def _master(workers: int, spark: Mapping[str, str]) -> str:
    cores = spark["spark.executor.cores"]
    heap = int(spark["spark.executor.memory"].removesuffix("m"))
    return f"local-cluster[{workers},{cores},{heap + 384}]"


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


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody else on this machine may read, also if it was there before."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(text, encoding="utf-8")


def written(path: Path, document: object) -> None:
    """Write a file that readers see whole, or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(msgspec.json.encode(document))
    part.replace(path)
