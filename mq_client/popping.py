"""
Popped messages: a consumer takes single messages for a while, and acknowledges each.

The handle of a popped message is what its acknowledgement needs. RocketMQ calls it `extraInfo`:
eight parts, separated by blanks. A message that comes again has a new handle. After a change of
its invisible time, only the new handle counts, unless the message was popped in order.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from mq_client import errors

if TYPE_CHECKING:
    from mq_client.messages import StoredMessage, Unreadable

ORDERED = 999
"""The number of the revive queue in handles of ordered pops."""
MOST_POPPED = 32
"""A broker returns at most this many messages for one pop."""
POP_CK = "POP_CK"
"""The property in which a broker with the file store puts the handle of a message from retries."""
_NUMBER = "([0-9]{1,19})"
_HANDLE = re.compile(rf"{' '.join([_NUMBER] * 4)} ([012]) (\S+) {_NUMBER} {_NUMBER}")
_MOST_SPAN = 1 << 16
"""An answer to a pop spans far fewer offsets of a queue."""


class PopSource(Enum):
    """The topic in which a popped message is stored."""

    TOPIC = "0"
    RETRIES_V1 = "1"
    RETRIES_V2 = "2"

    def name_topic(self, group: str, topic: str) -> str:
        """Name the topic that has this group's messages of `topic`."""
        match self:
            case PopSource.TOPIC:
                return topic
            case PopSource.RETRIES_V1:
                return f"%RETRY%{group}_{topic}"
            case PopSource.RETRIES_V2:
                return f"%RETRY%{group}+{topic}"


class PopHandle(NamedTuple):
    """Says which message was popped, from where, and until when nobody else gets it."""

    start: int
    """The first offset of the pop in this queue."""
    popped_at_ms: int
    invisible_ms: int
    revive_queue: int
    source: PopSource
    broker: str
    queue_id: int
    offset: int

    @property
    def visible_at_ms(self) -> int:
        """When the message becomes visible again, by the broker's clock."""
        return self.popped_at_ms + self.invisible_ms

    @property
    def is_ordered(self) -> bool:
        """Whether the message was popped in order."""
        return self.revive_queue == ORDERED

    def __str__(self) -> str:
        """Write the handle as RocketMQ does."""
        parts = (*self[:4], self.source.value, self.broker, self.queue_id, self.offset)
        return " ".join(map(str, parts))


def parse_handle(text: str) -> PopHandle:
    """Read a handle. Raise a `UsageError` if it is none."""
    found = _HANDLE.fullmatch(text)
    if found is not None:
        *before, source, broker, queue, offset = found.groups()
        start, popped_at, invisible, revive = map(int, before)
        handle = PopHandle(
            start, popped_at, invisible, revive, PopSource(source), broker, int(queue), int(offset)
        )
        if 0 <= handle.offset - handle.start < _MOST_SPAN:
            return handle
    raise errors.UsageError(
        f"{text!r} is not the handle of a popped message; one is "
        "'7 1790000000000 30000 0 0 broker-a 3 7'"
    )


class PoppedMessage(NamedTuple):
    """A message that nobody else gets until its handle's time is over."""

    message: "StoredMessage"
    handle: PopHandle
    attempt: int
    """How often the message was delivered before; 0 at first."""
    error: str = ""
    """Why the body cannot be read. It is then as it is stored."""


class Waiting(NamedTuple):
    """What waits for the consumers of a group that pops, and how many of them wait."""

    ready: int
    """Messages that no consumer has got yet."""
    retries: int
    """Messages that come again, and that no consumer has got again yet."""
    parked: int
    """Pops that wait for a message."""


@dataclass(frozen=True, slots=True)
class Popped:
    """The answer to one pop. `body` contains the messages as they are stored."""

    popped_at_ms: int = 0
    invisible_ms: int = 0
    revive_queue: int = 0
    starts: Mapping[tuple[PopSource, str], int] = field(default_factory=dict)
    """The first offset in each queue."""
    attempts: Mapping[tuple[PopSource, str], int] = field(default_factory=dict)
    """For an ordered pop: how often each queue or message (`qo<queue>%<offset>`) came before."""
    body: bytes | memoryview = b""

    def to_messages(self, group: str, topic: str, broker: str) -> list[PoppedMessage]:
        """Decode the messages. Those of the group's retries get their topic back."""
        from mq_client import decoding

        unreadable: list[Unreadable] = []
        try:
            found = list(decoding.decode(self.body, broker))
        except errors.CorruptMessageError:
            whole = decoding.drop_unreadable(self.body, broker, unreadable)
            found = list(decoding.decode(whole, broker))
        sources = {each.name_topic(group, topic): each for each in PopSource}
        every = [(message, "") for message in found]
        every += [(each.message, each.reason) for each in unreadable]
        return [self._make_popped(message, error, sources, topic) for message, error in every]

    def _make_popped(
        self,
        message: "StoredMessage",
        error: str,
        sources: Mapping[str, PopSource],
        topic: str,
    ) -> PoppedMessage:
        source = sources.get(message.topic)
        if source is None:
            raise errors.ProtocolError(
                f"a pop of {topic!r} got a message of {message.topic!r}: it is not asked for"
            )
        handle = self._make_handle(message, self._find_source(message, source))
        attempt = self._count_attempts(message, handle)
        return PoppedMessage(message._replace(topic=topic), handle, attempt, error)

    def _find_source(self, message: "StoredMessage", source: PopSource) -> PopSource:
        """
        Find out which topic has the message.

        A broker with the file store gives messages from retries their topic back, and adds the
        handle as a property. A producer may have set that property too, so it must fit.
        """
        try:
            given = parse_handle(message.properties.get(POP_CK, ""))
        except errors.UsageError:
            return source
        place = (message.broker, message.queue_id, message.queue_offset)
        fits = place == (given.broker, given.queue_id, given.offset)
        is_known = self.starts.get((given.source, str(given.queue_id))) == given.start
        return given.source if fits and is_known else source

    def _make_handle(self, message: "StoredMessage", source: PopSource) -> PopHandle:
        start = self.starts.get((source, str(message.queue_id)))
        if start is None:
            raise errors.ProtocolError(
                f"a pop does not say where it began in queue {message.queue_id} of "
                f"{message.topic!r}"
            )
        return PopHandle(
            start, self.popped_at_ms, self.invisible_ms, self.revive_queue, source,
            message.broker, message.queue_id, message.queue_offset,
        )  # fmt: skip

    def _count_attempts(self, message: "StoredMessage", handle: PopHandle) -> int:
        if not handle.is_ordered:
            return message.reconsume_times
        of_message = (handle.source, f"qo{handle.queue_id}%{handle.offset}")
        of_queue = (handle.source, str(handle.queue_id))
        return self.attempts.get(of_message, self.attempts.get(of_queue, 0))
