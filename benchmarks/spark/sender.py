"""
Send messages steadily, to all queues in turn, until standard input ends.

`python -m benchmarks.spark.sender NAME_SERVER TOPIC MESSAGES_A_SECOND MESSAGES_A_BATCH`
"""

import select
import sys
import time

from benchmarks.pull import messages
from mq_client.blocking import Client
from mq_client.choosers import RoundRobin

TICK_SECONDS = 0.1


def main(name_server: str, topic: str, a_second: int, a_batch: int) -> None:
    """Send."""
    chooser = RoundRobin()
    due = time.monotonic()
    with Client(name_server) as client:
        while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
            messages.send(client, topic, round(a_second * TICK_SECONDS), chooser, a_batch)
            due += TICK_SECONDS


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
