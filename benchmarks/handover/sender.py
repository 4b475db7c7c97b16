"""
Send numbered messages evenly to all queues: `... handover.sender SERVER TOPIC FILE`.

It sends until its standard input is closed. Each line of the file has a time, how many messages
were sent until then, and the numbers of messages whose send has failed since the previous line. A
failed send is not repeated, because a message that is stored twice would look as if it had been
consumed twice. A slow send delays no other send: if a broker is unreachable, the queues of the
other brokers must not stand still.
"""

import json
import select
import sys
import time
from pathlib import Path
from typing import TextIO

from mq_client.blocking import Client
from mq_client.blocking.engine import RunningFlow
from mq_client.choosers import list_writable
from mq_client.connection import NEVER
from mq_client.directory import Times
from mq_client.errors import MqError
from mq_client.messages import Message
from mq_client.operations import sending
from mq_client.values import MessageQueue, Route, Sent

A_SECOND = 400
_A_BATCH = 5
_BATCHES_AT_ONCE = 8
_TIMES = Times(route_age=1.0)
"""Routes are never older than this, so that an added queue soon gets messages."""


def main(name_server: str, topic: str, told: str) -> None:
    """Send until standard input is closed."""
    with Client(name_server, times=_TIMES) as client, Path(told).open("w") as into:
        _Sender(client, topic, into).send_all()


class _EachQueue:
    """
    Picks each queue in turn, also those of a broker that the route has lost.

    Otherwise a restarted broker would get no messages before a name server lists it again, and
    nobody could read any.
    """

    def __init__(self) -> None:
        self._known: set[MessageQueue] = set()
        self._next = 0

    def choose(self, route: Route, failed_broker: str | None) -> MessageQueue:
        self._known.update(
            MessageQueue(each.topic, each.broker, each.id)
            for run in list_writable(route)
            for each in run
        )
        self._next += 1
        queues = sorted(self._known, key=lambda queue: (queue.id, queue.broker))
        return queues[self._next % len(queues)]

    def note_end(self, broker: str, seconds: float, error: MqError | None) -> None:
        """Ignore the outcome."""


class _Sender:
    def __init__(self, client: Client, topic: str, into: TextIO) -> None:
        self._client = client
        self._topic = topic
        self._into = into
        self._chooser = _EachQueue()
        self._sent = 0
        self._under_way: list[tuple[range, RunningFlow[Sent]]] = []

    def send_all(self) -> None:
        begun = due = time.monotonic()
        while not _is_told_to_stop(due - time.monotonic()):
            self._under_way += [self._begin() for _ in range(_BATCHES_AT_ONCE)]
            due = begun + self._sent / A_SECOND
            self._say(due - time.monotonic())
        self._say(NEVER)

    def _begin(self) -> tuple[range, RunningFlow[Sent]]:
        numbers = range(self._sent, self._sent + _A_BATCH)
        self._sent += _A_BATCH
        batch = [Message(self._topic, b"%d" % each) for each in numbers]
        send = sending.send(self._client.directory, batch, self._chooser, tries=1)
        return numbers, self._client.start(send)

    def _say(self, patience_seconds: float) -> None:
        """Wait until all sends are answered, or the time is over; then write a line."""
        self._client.engine.wait(
            lambda: all(flow.is_done for _, flow in self._under_way), patience_seconds
        )
        done = [each for each in self._under_way if each[1].is_done]
        self._under_way = [each for each in self._under_way if not each[1].is_done]
        unsure = [number for numbers, flow in done if _has_failed(flow) for number in numbers]
        line = {"at": time.time(), "sent": self._sent, "unsure": unsure}
        print(json.dumps(line), file=self._into)


def _has_failed(flow: RunningFlow[Sent]) -> bool:
    try:
        flow.get_result()
    except MqError:
        return True
    return False


def _is_told_to_stop(seconds: float) -> bool:
    """Wait until the next messages are due; return whether standard input was closed first."""
    ready, _, _ = select.select([sys.stdin], [], [], max(0.0, seconds))
    return bool(ready)


if __name__ == "__main__":
    main(*sys.argv[1:])
