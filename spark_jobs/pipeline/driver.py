"""
Runs a job: chooses its engine, opens Spark, and keeps two drivers of one job apart.

`batch/engine.py` and `flow/engine.py` show what the driver does then.
"""

import logging
import signal
import threading

from contract import exit_codes
from contract.job_file import JobFile
from contract.kinds.jobs import JobEngine
from contract.report import BareReport
from mq_client.errors import UsageError
from spark_jobs import options
from spark_jobs.pipeline import engines, in_cluster, session, users_part
from spark_jobs.pipeline.assignments import Assignments, FileAssignments
from spark_jobs.pipeline.batch import engine as batch_engine
from spark_jobs.pipeline.failures import UsersPartError
from spark_jobs.pipeline.flow import engine as flow_engine
from spark_jobs.pipeline.flow import users as flow_users
from spark_jobs.pipeline.starting import StartStep, StartTimes

log = logging.getLogger("evenkeel.job")


def run(job: JobFile) -> int:
    """Run a job in this process."""
    stop = threading.Event()
    if job.kubernetes is None:
        return _run(job, FileAssignments(job.assignments, job.report), stop)
    _stop_on_signals(stop)  # before the wait for another driver's Lease, which may be long
    with in_cluster.become_only_driver(job, job.kubernetes, stop) as assignments:
        return exit_codes.TRY_AGAIN if assignments is None else _run(job, assignments, stop)


def _run(job: JobFile, assignments: Assignments, stop: threading.Event) -> int:
    try:
        reading = options.parse_reading(job.source, is_stream=True)
        if not reading.commits:
            raise UsageError("source: a job needs the option group")
        choice = engines.choose(job, reading)
        log.info("engine %s", choice)
        start = StartTimes()
        start.note(StartStep.PYTHON)
        if choice.engine is JobEngine.FLOW:
            flow = flow_users.read(job, reading)
            with session.open_context(job, session.FLOW_SETTINGS, start) as context:
                _stop_on_signals(stop)  # again: Spark has set its own handler
                return flow_engine.run(
                    context, job, reading, flow, assignments, stop, str(choice), start
                )
        users = users_part.read(job, assignments.confirm)
        with session.open_context(job, session.BATCH_SETTINGS, start) as context:
            _stop_on_signals(stop)  # as above
            return batch_engine.run(
                context, job, reading, users, assignments, stop, str(choice), start
            )
    except (UsageError, UsersPartError) as error:
        log.error("the job cannot start: %s", error)
        assignments.report(BareReport(str(error)))
        return exit_codes.PERMANENT


def _stop_on_signals(stop: threading.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
