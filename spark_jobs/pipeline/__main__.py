"""Run a job: `python -m spark_jobs.pipeline job.json`."""

import argparse
import logging
import sys

from contract import exit_codes
from mq_client.errors import UsageError
from spark_jobs.pipeline import driver, job


def main() -> int:
    """Read the job, and run it."""
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.pipeline", description=__doc__)
    parser.add_argument("job", help="a JSON file: docs/spark-jobs.md")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        found = job.load(chosen.job)
    except UsageError as error:
        print(f"evenkeel: {error}", file=sys.stderr)
        return exit_codes.PERMANENT
    return driver.run(found)


if __name__ == "__main__":
    sys.exit(main())
