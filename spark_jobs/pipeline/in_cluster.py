"""
A job's driver inside Kubernetes, beside an operator that it knows only by three objects.

It holds a Lease as long as it runs, so that there is never a second driver; hears its assignment in
the status of a ConsumerGroup; reports to a ConfigMap; sees to it that pods of lost executors go;
and ends when its loop hangs. Each has a thread and a connection of its own: what one waits for
keeps no other from its work.
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
from spark_jobs.pipeline.alive import Alive
from spark_jobs.pipeline.assignments import InFiles, JobAssignment
from spark_jobs.pipeline.hearing import Hearing
from spark_jobs.pipeline.kube import Api
from spark_jobs.pipeline.lease import DriverLease
from spark_jobs.pipeline.overdue import Overdue
from spark_jobs.pipeline.reporting import Reporting


class InCluster:
    """Follows the file that holds what was heard, and reports to a file and to the cluster."""

    def __init__(
        self,
        files: InFiles,
        held: DriverLease,
        reporting: Reporting,
        overdue: Overdue,
        alive: Alive,
        holder: str,
    ) -> None:
        """Begin with what was heard already."""
        self._files = files
        self._held = held
        self._reporting = reporting
        self._overdue = overdue
        self._alive = alive
        self._holder = holder

    def latest(self) -> JobAssignment:
        """Tell the newest assignment that was heard."""
        return self._files.latest()

    def report(self, report: BareReport) -> None:
        """Say how far the job is, and which driver says so; the loop does so at every turn."""
        self._alive.sign()
        self._files.report(report)
        self._overdue.follow(report.executors if isinstance(report, DriverReport) else ())
        self._reporting.tell(msgspec.structs.replace(report, driver=self._holder))

    def confirm(self) -> None:
        """Make sure of the Lease."""
        self._held.confirm()


@contextmanager
def only_driver(
    job: JobFile, where: JobCluster, stop: threading.Event
) -> Iterator[InCluster | None]:
    """Wait until no other driver runs, and be the only one until left; None if told to stop."""

    def api() -> Api:
        return Api(where.server, Path(where.credentials))

    name = names.name_driver(where.name)
    path = kube.url_path(lease.LEASES, where.namespace, "leases", name)
    held = DriverLease(api(), path, where.holder, lease.end_at_once)
    if not held.take(stop):
        yield None
        return
    hearing = Hearing(api(), where.namespace, where.name, Path(job.assignments))
    reporting = Reporting(api(), where.namespace, name)
    overdue = Overdue(api(), where.namespace, where.name)
    alive = Alive(lease.end_at_once)
    with held.kept(), hearing.kept_up(), reporting.kept_up(), overdue.kept_up(), alive.watched():
        files = InFiles(job.assignments, job.report)
        yield InCluster(files, held, reporting, overdue, alive, where.holder)
