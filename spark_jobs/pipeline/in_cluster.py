"""
Runs a job's driver inside Kubernetes, where it shares three objects with the operator.

The driver holds a Lease while it runs, so that there is never a second driver. It watches its
assignment in the status of a ConsumerGroup, reports to a ConfigMap, deletes the pods of lost
executors, and ends if its loop hangs. Each of these tasks has its own thread and connection, so
no task delays another.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from contract import names
from contract.job_file import JobCluster, JobFile
from contract.report import BareReport, DriverReport
from spark_jobs.pipeline import kube, lease
from spark_jobs.pipeline.alive import LoopWatchdog
from spark_jobs.pipeline.assignments import FileAssignments, JobAssignment
from spark_jobs.pipeline.hearing import AssignmentWatcher
from spark_jobs.pipeline.kube import KubeApi
from spark_jobs.pipeline.lease import DriverLease
from spark_jobs.pipeline.overdue import OverduePods
from spark_jobs.pipeline.reporting import ReportWriter


class ClusterAssignments:
    """Reads assignments from the watcher's file, and reports to a file and to the cluster."""

    def __init__(
        self,
        files: FileAssignments,
        held: DriverLease,
        reporting: ReportWriter,
        overdue: OverduePods,
        watchdog: LoopWatchdog,
        holder: str,
    ) -> None:
        """Begin with the assignment that is already in the file."""
        self._files = files
        self._held = held
        self._reporting = reporting
        self._overdue = overdue
        self._watchdog = watchdog
        self._holder = holder

    def read_latest(self) -> JobAssignment:
        """Read the newest assignment that the watcher has seen."""
        return self._files.read_latest()

    def report(self, report: BareReport) -> None:
        """Write the report, with the driver's pod. The loop calls this in every iteration."""
        self._watchdog.note_turn()
        self._files.report(report)
        self._overdue.follow(report.executors if isinstance(report, DriverReport) else ())
        self._reporting.submit(msgspec.structs.replace(report, driver=self._holder))

    def confirm(self) -> None:
        """Renew the Lease. Return only if no other driver has taken over."""
        self._held.confirm()


@contextmanager
def become_only_driver(
    job: JobFile, where: JobCluster, stop: threading.Event
) -> Iterator[ClusterAssignments | None]:
    """Take the Lease, and hold it until the block ends. Yield None if `stop` is set before."""

    def connect() -> KubeApi:
        return KubeApi(where.server, Path(where.credentials))

    name = names.name_driver(where.name)
    path = kube.build_path(lease.LEASES, where.namespace, "leases", name)
    held = DriverLease(connect(), path, where.holder, lease.end_at_once)
    if not held.take(stop):
        yield None
        return
    hearing = AssignmentWatcher(connect(), where.namespace, where.name, Path(job.assignments))
    reporting = ReportWriter(connect(), where.namespace, name)
    overdue = OverduePods(connect(), where.namespace, where.name)
    watchdog = LoopWatchdog(lease.end_at_once)
    with (
        held.keep(),
        hearing.run_in_thread(),
        reporting.run_in_thread(),
        overdue.run_in_thread(),
        watchdog.run_in_thread(),
    ):
        files = FileAssignments(job.assignments, job.report)
        yield ClusterAssignments(files, held, reporting, overdue, watchdog, where.holder)
