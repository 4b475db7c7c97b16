"""
Sends messages one by one, from several threads: `python -m benchmarks.send.senders`.

Its argument is the address of the name server. The threads share one client and one chooser.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.pull import messages, player
from benchmarks.pull.player import Job
from mq_client.blocking import Client
from mq_client.choosers import AvoidSlow, Chooser

SEND = "send"
THREADS = 8


def main(name_server: str) -> None:
    """Play standard input."""
    with Client(name_server) as client:
        chooser = AvoidSlow()

        def prepare(job: Job) -> Callable[[], int]:
            return lambda: _send_all(client, job, chooser)

        player.play({SEND: prepare})


def _send_all(client: Client, job: Job, chooser: Chooser) -> int:
    each_sends = job.messages // THREADS

    def send_some() -> int:
        return sum(messages.send(client, job.topic, 1, chooser) for _ in range(each_sends))

    with ThreadPoolExecutor(THREADS) as threads:
        return sum(each.result() for each in [threads.submit(send_some) for _ in range(THREADS)])


if __name__ == "__main__":
    main(sys.argv[1])
