"""
Deletes messages: a broker deletes them, or a relay answers as if the broker had deleted them.

A broker deletes nothing in its first minute. Its answers while it deletes are known, so a relay can
give them at any time. First, the broker skips the deleted offsets: it answers with code 20, or with
the messages after these offsets. Later, these offsets are before the beginning of the queue.
"""

import random
from abc import ABC, abstractmethod
from itertools import pairwise

from mq_client import wire
from mq_client.frames import Frame
from tests.answers import Asked, said
from tests.histories.checker import World
from tests.histories.ground import Ground

READS_BETWEEN = 3
"""How often a queue is read between the two steps of deletion."""


class Deleting(ABC):
    """Deletes the oldest messages of a queue in two steps. Readers can read between the steps."""

    @abstractmethod
    def begin(self, topic: str, world: World, rng: random.Random) -> None:
        """Begin to delete."""

    @abstractmethod
    def is_over(self) -> bool:
        """Whether both steps are done. The player calls this before each read."""

    @abstractmethod
    def below(self, world: World) -> int:
        """Return the position in the commit log below which messages are gone by now."""

    @abstractmethod
    def forget(self) -> None:
        """Undo everything before the next history."""


class ByBroker(Deleting):
    """Lets the broker delete messages; it must have run for more than a minute."""

    def __init__(self, ground: Ground) -> None:
        """Delete nothing yet."""
        self._ground = ground
        self._deletions: dict[str, int] = {}

    def begin(self, topic: str, world: World, rng: random.Random) -> None:
        """Ask both brokers to delete."""
        self._deletions = self._ground.deletions()
        self._ground.delete_messages()

    def is_over(self) -> bool:
        """Whether both brokers have finished. A slave that is held before would miss messages."""
        seen = self._ground.deletions()
        return all(count > self._deletions[name] for name, count in seen.items())

    def below(self, world: World) -> int:
        """Ask the master, and also the slave if the master is lost."""
        return self._ground.deleted_below(with_slave=not world.has_master)

    def forget(self) -> None:
        """Do nothing: deleted messages stay deleted."""


class ByRelay(Deleting):
    """Lets a relay answer as if messages were deleted."""

    def __init__(self, ground: Ground) -> None:
        """Delete nothing yet."""
        self._answers = ground.answers
        self._topic = ""
        self._first = self._place = self._reads = 0

    def begin(self, topic: str, world: World, rng: random.Random) -> None:
        """Choose the first message that stays."""
        self._topic = topic
        self._first = rng.randint(self._first, world.end)
        is_all = self._first == world.end
        self._place = world.stored[-1].place + 1 if is_all else world.stored[self._first].place
        self._reads = 0
        self._answers.after = self._say

    def is_over(self) -> bool:
        """Count this read; return True after enough reads between the two steps."""
        self._reads += 1
        return self._reads > READS_BETWEEN

    def below(self, world: World) -> int:
        """Return the position of the chosen message."""
        return self._place

    def forget(self) -> None:
        """Pass answers on unchanged."""
        self._topic = ""
        self._first = self._place = self._reads = 0
        self._answers.after = lambda _, answer: answer

    def _say(self, asked: Asked, answer: Frame) -> Frame:
        if not asked.is_pull or asked.queue.topic != self._topic or asked.offset >= self._first:
            return answer
        if answer.code not in (0, 20):
            return answer
        if self._reads > READS_BETWEEN:
            return said(
                answer, 21, "OFFSET_TOO_SMALL", b"", next_offset=self._first, min_offset=self._first
            )
        left = self._left(answer.body) if answer.code == 0 else b""
        if left:
            return said(answer, body=left)
        return said(answer, 20, "MESSAGE_WAS_REMOVING" if answer.code == 0 else answer.remark, b"")

    def _left(self, body: bytes | memoryview) -> bytes:
        data = bytes(body)
        starts = [*wire.find_starts(data), len(data)]
        return b"".join(
            data[start:stop]
            for start, stop in pairwise(starts)
            if wire.HEAD.unpack_from(data, start)[5] >= self._first
        )
