"""
Send numbered messages evenly to all queues: `... handover.sender SERVER TOPIC FILE`.

It sends until its standard input is closed. Each line of the file has a time, how many messages
were sent until then, and the numbers of those sent since the line before and not confirmed. A
failed send is not repeated, because a message that is stored twice would look as if it had been
consumed twice.
"""

import json
import select
import sys
import time
from pathlib import Path
from typing import TextIO

from mq_client.blocking import Client
from mq_client.blocking.engine import RunningFlow
from mq_client.directory import Times
from mq_client.errors import MqError
from mq_client.messages import Message
from mq_client.operations import sending
from mq_client.operations.sending import RoundRobin
from mq_client.values import Sent

A_SECOND = 400
_A_BATCH = 5
_BATCHES_AT_ONCE = 8
_TIMES = Times(route_age=1.0)
"""Routes are never older than this, so that an added queue soon gets messages."""


def main(name_server: str, topic: str, told: str) -> None:
    """Send until standard input is closed."""
    with Client(name_server, times=_TIMES) as client, Path(told).open("w") as into:
        _Sender(client, topic, into).send_all()


class _Sender:
    def __init__(self, client: Client, topic: str, into: TextIO) -> None:
        self._client = client
        self._topic = topic
        self._into = into
        self._chooser = RoundRobin()
        self._sent = 0

    def send_all(self) -> None:
        begun = time.monotonic()
        while not _is_told_to_stop(begun + self._sent / A_SECOND - time.monotonic()):
            under_way = [self._begin() for _ in range(_BATCHES_AT_ONCE)]
            unsure = [number for each in under_way for number in self._unsure(*each)]
            line = {"at": time.time(), "sent": self._sent, "unsure": unsure}
            print(json.dumps(line), file=self._into)

    def _begin(self) -> tuple[range, RunningFlow[Sent]]:
        numbers = range(self._sent, self._sent + _A_BATCH)
        self._sent += _A_BATCH
        batch = [Message(self._topic, b"%d" % each) for each in numbers]
        send = sending.send(self._client.directory, batch, self._chooser, tries=1)
        return numbers, self._client.start(send)

    def _unsure(self, numbers: range, under_way: RunningFlow[Sent]) -> range:
        try:
            self._client.wait(under_way)
        except MqError:
            return numbers
        return range(0)


def _is_told_to_stop(seconds: float) -> bool:
    """Wait until the next messages are due; return whether standard input was closed first."""
    ready, _, _ = select.select([sys.stdin], [], [], max(0.0, seconds))
    return bool(ready)


if __name__ == "__main__":
    main(*sys.argv[1:])
