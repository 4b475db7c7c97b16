"""
Runs jobs on our client, as users call it: `python -m benchmarks.pull.ours NAME_SERVER`.

PULL reads all queues and makes Arrow columns of every batch. DECODE only makes the columns, from
batches that were pulled before. SEND sends batches, a few at a time.
"""

import sys
from collections.abc import Callable

from benchmarks.pull import messages, player
from benchmarks.pull.player import Job
from mq_client.blocking import Client
from mq_client.blocking.reader import QueueReader
from mq_client.choosers import RoundRobin
from mq_client.pulling import Position
from mq_client.values import MessageQueue

DECODE, PULL, SEND = "decode", "pull", "send"
GROUP, BROKER = "bench", "broker-a"


def main(name_server: str) -> None:
    """Play standard input."""
    with Client(name_server) as client:

        def pull(job: Job) -> Callable[[], int]:
            return lambda: sum(batch.to_columns().num_rows for batch in _read(client, job))

        def decode(job: Job) -> Callable[[], int]:
            batches = list(_read(client, job))
            return lambda: sum(batch.to_columns().num_rows for batch in batches)

        def send(job: Job) -> Callable[[], int]:
            return lambda: messages.send(client, job.topic, job.messages, RoundRobin())

        player.play({PULL: pull, DECODE: decode, SEND: send})


def _read(client: Client, job: Job) -> QueueReader:
    positions = [
        Position(MessageQueue(job.topic, BROKER, each), 0, stop=job.messages_a_queue)
        for each in range(job.queues)
    ]
    return client.read(GROUP, positions)


if __name__ == "__main__":
    main(sys.argv[1])
