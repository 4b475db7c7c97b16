"""
Opens the Spark session of a job whose file is given, and closes it at SIGTERM.

For Spark and the API server this is a driver, but there is no RocketMQ, and no batch runs.
"""

import signal
import sys
import threading

from spark_jobs.pipeline import job, session
from spark_jobs.pipeline.starting import StartTimes

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with session.open_session(job.load(sys.argv[1]), StartTimes()):
    print("the session is open", flush=True)  # noqa: T201 the test waits for it
    stop.wait()
