"""Serves a metrics page as a driver does. One of its two slots reads 1,000 rows a second."""

import sys
import threading
import time

from mq_client.values import MessageQueue
from spark_jobs.pipeline.facts import JobFacts
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.metrics import JobMetrics

LAGS = {MessageQueue("payments", "broker-a", number): 10**number for number in range(4)}


def serve(port: int) -> None:
    """Serve on one port until the process is ended."""
    begun = time.monotonic()

    def facts() -> JobFacts:
        rows = {"billing-0": int(1000 * (time.monotonic() - begun)), "billing-1": 0}
        return JobFacts(1, 1, 0, {}, True, Tally(rows=rows), None)

    JobMetrics(facts, lambda: LAGS).serve(port)
    threading.Event().wait()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
