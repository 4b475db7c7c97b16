"""
Runs a task until it ends: `python -m tests.kills.task NUMBER SLOT FOLDER SERVER TOPIC`.

NUMBER is the number of the task's driver. Spark's environment variable names the task's executor.
"""

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from spark_jobs.pipeline.flow.task import FlowTask
from tests.kills.ground import COMMIT_SECONDS, Ground, list_bodies

MOST_SECONDS = 0.02


def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(random.uniform(0, MOST_SECONDS))  # so that the task can be killed or frozen here
        yield from list_bodies(iter([batch]))


def main(number: int, slot: str, ground: Ground) -> None:
    driver = ground.find_driver(number)
    assert driver is not None, "it listens"
    sinks = ground.make_sinks(driver.query, driver.term)
    list(FlowTask(driver.place, slot, ground.make_reading(), sinks, work, COMMIT_SECONDS)(()))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Ground(Path(sys.argv[3]), *sys.argv[4:]))
