"""The options of a follower, and their defaults."""

import enum
from dataclasses import dataclass

from mq_client.pulling import READER_BYTES

QUEUE_THREADS, MESSAGE_CALLS = 256, 32
"""Maximum numbers of calls at the same time, unless the user chooses one."""


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
class Retries:
    """How often the handler gets a message with which it fails, and the pauses in between."""

    attempts: int
    first_pause: float
    longest_pause: float


@dataclass(frozen=True, slots=True)
class FollowerOptions:
    """How a member handles messages."""

    batch: int = 32
    """Maximum number of messages in one call of the handler."""
    arrow: bool = False
    """Whether the handler gets a `pyarrow.RecordBatch` instead of a list of messages."""
    threads: int | None = None
    """
    Maximum number of calls at the same time. None: 256, or 32 in a group that is balanced by
    message.

    A queue has one call at a time. With fewer threads than queues, slow queues make others wait.
    For a coroutine function, this is only a limit in a group that is balanced by message.
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

    @property
    def message_calls(self) -> int:
        """Maximum number of calls at the same time in a group that is balanced by message."""
        return self.processes or self.threads or MESSAGE_CALLS

    def __post_init__(self) -> None:
        """Refuse options that cannot work."""
        for name in ("batch", "threads", "attempts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise FollowerError(f"{name} is {value}: it must be 1 or more")
        if self.dead_letter is not None and self.on_failure is not OnFailure.DEAD_LETTER:
            raise FollowerError(
                f"dead_letter names the topic {self.dead_letter!r}, but on_failure is "
                f"{self.on_failure.value}: set on_failure to dead-letter too"
            )
