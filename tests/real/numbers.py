"""Sends numbered messages continuously, to compare what arrives with what was sent."""

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Self

from mq_client import blocking, errors
from mq_client.choosers import RoundRobin
from mq_client.messages import Message
from mq_client.values import MessageQueue
from sandbox.waiting import wait_for


class Numbers:
    """Sends numbered messages until the block ends."""

    def __init__(self, name_server: str, topic: str) -> None:
        self.sent = 0
        self.unsure: set[int] = set()
        """Numbers that were not confirmed: RocketMQ may have stored them or not."""
        self._name_server = name_server
        self._topic = topic
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def is_sending(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    def find_ends(self, client: blocking.Client) -> dict[MessageQueue, int]:
        """Find where all queues end. A broker shows a new end soon after it confirms a send."""
        ends = wait_for(
            lambda: {queue: at.max for queue, at in client.list_offsets(self._topic).items()},
            lambda ends: sum(ends.values()) == self.sent,
        )
        assert sum(ends.values()) == self.sent
        return ends

    def _send(self) -> None:
        chooser = RoundRobin()
        with blocking.Client(self._name_server) as client:
            while not self._done.wait(0.02):
                try:
                    client.send([Message(self._topic, b"%d" % self.sent)], chooser, tries=1)
                except errors.MqError:
                    self.unsure.add(self.sent)
                self.sent += 1


def arrived(rows: Path) -> Counter[int]:
    """Count how often a JSON sink has each number."""
    done = rows.glob("query=*/batch=*/part-*.json")
    lines = [line for part in done for line in part.read_text().splitlines()]
    return Counter(int(json.loads(line)["body"]) for line in lines)
