"""The pinned pipeline: a Spark job whose executors read the queues that they are assigned."""

import time

BEGUN = time.monotonic()
"""When this process began to load the pipeline, whose other modules load Spark."""
