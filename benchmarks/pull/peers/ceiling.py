"""
Only receive what our client requests: `python -m benchmarks.pull.peers.ceiling ADDRESS`.

It has one blocking socket and, like our client, one pull in flight for each queue. All answers go
to the same buffer. Of each answer it reads only the queue and the next offset.
"""

import re
import socket
import sys
from collections.abc import Callable
from struct import Struct

from benchmarks.pull import ours, player
from benchmarks.pull.player import Job
from mq_client import frames
from mq_client.directory import split_address
from mq_client.frames import Frame
from mq_client.pulling import POLL_MS, Position
from mq_client.values import MessageQueue

_LENGTHS = Struct(">II")
_OPAQUE = re.compile(rb'"opaque":(\d+)')
_NEXT = re.compile(rb'"nextBeginOffset":"(\d+)"')


class Ceiling:
    """One connection."""

    def __init__(self, address: str) -> None:
        """Connect."""
        self._sock = socket.create_connection(split_address(address))
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(frames.FRAME_MAX))

    def pull(self, job: Job) -> Callable[[], int]:
        """Receive all messages of the topic."""
        return lambda: self._pull(job)

    def _pull(self, job: Job) -> int:
        for queue in range(job.queues):
            self._ask(job.topic, queue, 0)
        left = job.queues
        while left:
            queue, offset = self._receive()
            if offset < job.messages_a_queue:
                self._ask(job.topic, queue, offset)
            else:
                left -= 1
        return job.messages

    def _ask(self, topic: str, queue: int, offset: int) -> None:
        pull = Position(MessageQueue(topic, ours.BROKER, queue), offset).make_request(
            ours.GROUP, POLL_MS
        )
        self._sock.sendall(frames.encode(Frame(pull.code, queue, 0, pull.list_fields())))

    def _receive(self) -> tuple[int, int]:
        """Receive an answer; return its queue and next offset."""
        self._fill(_LENGTHS.size)
        total, header = _LENGTHS.unpack_from(self._buffer)
        self._fill(total - (_LENGTHS.size - 4))
        opaque, offset = (field.search(self._buffer, 0, header) for field in (_OPAQUE, _NEXT))
        assert opaque, "an answer without a number"
        assert offset, "the broker has refused a pull"
        return int(opaque[1]), int(offset[1])

    def _fill(self, size: int) -> None:
        received = 0
        while received < size:
            space = self._buffer[received:size]
            count = self._sock.recv_into(space, 0, socket.MSG_WAITALL)
            assert count, "the broker has closed the connection"
            received += count


if __name__ == "__main__":
    player.play({ours.PULL: Ceiling(sys.argv[1]).pull})
