"""
Opens Spark for a job whose file is given, and closes it at SIGTERM.

For Spark and the API server this is a driver, but there is no RocketMQ, and no batch runs.
"""

import signal
import sys
import threading

from spark_jobs.pipeline import job, session
from spark_jobs.pipeline.starting import StartTimes

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with session.open_context(job.load(sys.argv[1]), session.SETTINGS, StartTimes()):
    print("Spark is open", flush=True)  # noqa: T201 the test waits for it
    stop.wait()
