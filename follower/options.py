"""The options of a follower, and their defaults."""

import enum
from dataclasses import dataclass

from mq_client.pulling import READER_BYTES


class FollowerError(Exception):
    """A follower cannot continue until a user changes something. The message says what."""


class Begin(enum.Enum):
    """Where reading begins in a queue for which the group has committed no offset."""

    EARLIEST = "earliest"
    """At the first existing message, so messages of a new queue are never missed."""
    LATEST = "latest"
    """At the next message that arrives."""


class OnFailure(enum.Enum):
    """What happens to a message after the handler has failed with it `attempts` times."""

    STOP = "stop"
    """Its queue is not read until the member starts again, or another member gets the queue."""
    SKIP = "skip"
    """The message is skipped."""
    DEAD_LETTER = "dead-letter"
    """The message is sent to the dead-letter topic, and then skipped."""


@dataclass(frozen=True, slots=True)
class FollowerOptions:
    """How a member handles messages."""

    batch: int = 32
    """Maximum number of messages in one call of the handler."""
    arrow: bool = False
    """Whether the handler gets a `pyarrow.RecordBatch` instead of a list of messages."""
    threads: int = 256
    """
    Maximum number of calls at the same time, if the handler is not a coroutine function.

    A queue has one call at a time. With fewer threads than queues, slow queues make others wait.
    """
    processes: int = 0
    """How many processes run the handler, each one call at a time. 0: this process runs it."""
    attempts: int = 16
    """After this number of calls a message counts as failed. RocketMQ's default is also 16."""
    on_failure: OnFailure = OnFailure.STOP
    dead_letter: str | None = None
    """A topic for messages that failed; None: RocketMQ's own, `%DLQ%` and the group's name."""
    begin: Begin = Begin.EARLIEST
    memory_bytes: int = READER_BYTES
    """Approximate maximum, in bytes, of all messages that are pulled and not handled yet."""

    def __post_init__(self) -> None:
        """Refuse options that cannot work."""
        for name in ("batch", "threads", "attempts"):
            if getattr(self, name) < 1:
                raise FollowerError(f"{name} is {getattr(self, name)}: it must be 1 or more")
        if self.dead_letter is not None and self.on_failure is not OnFailure.DEAD_LETTER:
            raise FollowerError(
                f"dead_letter names the topic {self.dead_letter!r}, but on_failure is "
                f"{self.on_failure.value}: set on_failure to dead-letter too"
            )
