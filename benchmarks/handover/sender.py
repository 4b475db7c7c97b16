"""
Sends numbered messages evenly to all queues: `python -m benchmarks.handover.sender SERVER TOPIC`.

It sends until its standard input is closed, and then says how many there were. A send that fails is
not tried again, for a message that is stored twice would look as if it had been consumed twice.
"""

import select
import sys
import time

from mq_client.blocking import Client
from mq_client.directory import Times
from mq_client.messages import Message
from mq_client.operations import sending
from mq_client.operations.sending import RoundRobin

A_SECOND = 800
_A_BATCH = 5
_BATCHES_AT_ONCE = 8
_TIMES = Times(route_age=1.0)
"""A queue that is added gets messages as soon."""


def main(name_server: str, topic: str) -> None:
    """Send until told to stop."""
    chooser = RoundRobin()
    sent = 0
    with Client(name_server, times=_TIMES) as client:
        begun = time.monotonic()
        while not _is_told_to_stop(begun + sent / A_SECOND - time.monotonic()):
            under_way = []
            for _ in range(_BATCHES_AT_ONCE):
                batch = [Message(topic, b"%d" % (sent + each)) for each in range(_A_BATCH)]
                send = sending.send(client.directory, batch, chooser, tries=1)
                under_way.append(client.start(send))
                sent += _A_BATCH
            for each in under_way:
                client.wait(each)
    print(sent, flush=True)


def _is_told_to_stop(seconds: float) -> bool:
    """Wait for the next messages to be due."""
    ready, _, _ = select.select([sys.stdin], [], [], max(0.0, seconds))
    return bool(ready)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
