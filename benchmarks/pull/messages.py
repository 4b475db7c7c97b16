"""Makes the messages that all programs move, and sends them with our client."""

import random
from collections import deque
from collections.abc import Iterator

from mq_client.blocking import Client
from mq_client.blocking.engine import RunningFlow
from mq_client.choosers import Chooser
from mq_client.messages import Message
from mq_client.operations import sending
from mq_client.values import Sent

BODY_BYTES = 1024
A_BATCH = 256
IN_FLIGHT = 4
"""How many batches our client has in flight when it sends."""

_BODY = random.Random(1).randbytes(BODY_BYTES // 2).hex().encode()  # some readers expect text


def send(client: Client, topic: str, count: int, chooser: Chooser, a_batch: int = A_BATCH) -> int:
    """Send messages, a few batches at a time, and wait until all are stored."""
    under_way: deque[RunningFlow[Sent]] = deque()
    for batch in _list_batches(topic, count, a_batch):
        if len(under_way) == IN_FLIGHT:
            client.wait(under_way.popleft())
        under_way.append(client.start(sending.send(client.directory, batch, chooser)))
    for task in under_way:
        client.wait(task)
    return count


def _list_batches(topic: str, count: int, a_batch: int) -> Iterator[list[Message]]:
    for first in range(0, count, a_batch):
        numbers = range(first, min(first + a_batch, count))
        yield [Message(topic, _BODY, tags="bench", keys=(f"key-{each}",)) for each in numbers]
