"""
Runs a stream that has nothing to read: `python -m benchmarks.spark.idle NAME_SERVER TOPIC MASTER`.

It prints a line when it has begun, and runs until its standard input ends.
"""

import sys
import time

from benchmarks.spark import sessions
from spark_jobs import RocketMQ

TRIGGER = "1 second"
_PAUSE_SECONDS = 0.1


def main(name_server: str, topic: str, master: str) -> None:
    """Run the stream."""
    with sessions.open_session(master) as spark:
        spark.dataSource.register(RocketMQ)
        reader = spark.readStream.format(RocketMQ.name()).option("nameServers", name_server)
        writer = reader.option("topics", topic).load().writeStream.format("noop")
        query = writer.trigger(processingTime=TRIGGER).start()
        while query.lastProgress is None:
            assert query.isActive, query.exception()
            time.sleep(_PAUSE_SECONDS)
        print("begun", flush=True)
        sys.stdin.read()
        query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
