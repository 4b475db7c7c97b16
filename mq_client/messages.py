"""
Messages as values: one to be sent, and one as a broker stored it.

`decode` is the plain way to read a pull's answer, an object a message; `columns.read` does the same
for many messages at once. Any bytes give messages or a `ProtocolError`.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, ip_address
from itertools import pairwise
from struct import Struct

from mq_client import batch_body, compression, errors, properties, wire
from mq_client.checks import INT32_MAX, INT64_MAX, is_whole
from mq_client.filters import EVERYTHING, Filter
from mq_client.values import MessageQueue

TOPIC_MAX = 127
EXPANDED_MAX = 256 * 1024 * 1024
"""
What one answer may expand to: 16 times the largest one. Counted are bodies that were compressed,
and for each message of an inner batch what it takes over from the message that held it.
"""
OFFSET_MAX = (1 << 63) - 1

_UINT8, _INT16, _UINT32, _INT64 = Struct(">B"), Struct(">h"), Struct(">I"), Struct(">q")
_RESTS = {
    0: Struct(">8sq8siqi"),
    wire.BORN_V6: Struct(">20sq8siqi"),
    wire.STORE_V6: Struct(">8sq20siqi"),
    wire.BORN_V6 | wire.STORE_V6: Struct(">20sq20siqi"),
}
"""What follows the head up to the body: hosts with or without IPv6, and the fields between."""
_BUFFERS = (bytes, bytearray, memoryview)
_OWN_PROPERTIES = frozenset(
    (properties.TAGS, properties.KEYS, properties.DELAY_LEVEL, properties.DELIVER_AT_MS)
)


@dataclass(frozen=True, slots=True)
class Message:
    """A message to be sent. What no broker could store is a `UsageError` at once."""

    topic: str
    body: bytes
    """Any other buffer is copied: its owner may change it. Only a batch may hold an empty one."""
    tags: str | None = None
    """What filters look at: in spite of its name, one tag."""
    keys: tuple[str, ...] = ()
    """Words by which people find the message again."""
    properties: Mapping[str, str] = field(default_factory=dict)
    delay_level: int | None = None
    """Deliver later, after the broker's delay of this number, from 1."""
    deliver_at_ms: int | None = None
    """Deliver later, at this time."""
    flag: int = 0
    """For the application; RocketMQ does not look at it."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if complaint := self._wrong_type() or self._complaint():
            raise errors.UsageError(f"message to topic {self.topic!r}: {complaint}")
        if not isinstance(self.body, bytes):
            object.__setattr__(self, "body", bytes(self.body))

    def _wrong_type(self) -> str | None:
        if not isinstance(self.topic, str):
            return "the topic is no text"
        if not isinstance(self.body, _BUFFERS):
            return f"its body is no bytes but {type(self.body).__name__}; a text needs .encode()"
        if self.tags is not None and not isinstance(self.tags, str):
            return f"tags {self.tags!r} are no text"
        if self.keys and (isinstance(self.keys, str) or not _are_texts(self.keys)):
            return f"keys {self.keys!r} are no tuple of texts"
        if self.properties and not (
            isinstance(self.properties, Mapping)
            and _are_texts(self.properties)
            and _are_texts(self.properties.values())
        ):
            return f"properties {self.properties!r} are no texts by name"
        if not is_whole(self.flag, -INT32_MAX - 1, INT32_MAX):
            return f"flag {self.flag!r} is no whole number of 32 bits, with a sign"
        if self.delay_level is not None and not is_whole(self.delay_level, 1, INT32_MAX):
            return f"delay_level {self.delay_level!r} is no whole number from 1 on"
        if self.deliver_at_ms is not None and not is_whole(self.deliver_at_ms, 1, INT64_MAX):
            return f"deliver_at_ms {self.deliver_at_ms!r} is no time in milliseconds since 1970"
        return None

    def _complaint(self) -> str | None:
        if not self.topic:
            return "the topic is empty"
        if len(self.topic) > TOPIC_MAX:
            return f"its name has {len(self.topic)} characters, at most {TOPIC_MAX}"
        if self.keys and ("" in self.keys or " " in "".join(self.keys)):
            return f"keys {self.keys}: no key may be empty or hold a space, which separates them"
        if self.delay_level is not None and self.deliver_at_ms is not None:
            return "both delay_level and deliver_at_ms are given"
        if self.properties and (own := sorted(_OWN_PROPERTIES & self.properties.keys())):
            return f"properties {', '.join(own)} have fields of their own"
        return None

    @property
    def unique_key(self) -> str | None:
        """The message id as users see it, if it has one already."""
        return self.properties.get(properties.UNIQUE_KEY)

    def wire_properties(self, unique_key: str) -> dict[str, str]:
        """List all properties as the broker stores them, and this id if it has none."""
        found = {properties.UNIQUE_KEY: unique_key}
        if self.tags is not None:
            found[properties.TAGS] = self.tags
        if self.keys:
            found[properties.KEYS] = " ".join(self.keys)
        if self.delay_level is not None:
            found[properties.DELAY_LEVEL] = str(self.delay_level)
        if self.deliver_at_ms is not None:
            found[properties.DELIVER_AT_MS] = str(self.deliver_at_ms)
        found.update(self.properties)
        return found


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as a broker stored it, but that its body is expanded."""

    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    body: bytes
    properties: Mapping[str, str]
    flag: int
    sys_flag: int
    """As stored: it still says how the body was compressed."""
    born_timestamp_ms: int
    born_address: bytes
    """The producer: an IP address and four bytes for the port. `born_host` shows it."""
    store_timestamp_ms: int
    store_address: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    commit_log_offset: int

    @property
    def tags(self) -> str | None:
        """The tag, as filters see it."""
        return self.properties.get(properties.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The words by which people find the message."""
        return tuple(self.properties.get(properties.KEYS, "").split())

    @property
    def msg_id(self) -> str:
        """The id that the producer gave, else the place where the broker stored the message."""
        return self.properties.get(properties.UNIQUE_KEY) or self.offset_msg_id

    @property
    def offset_msg_id(self) -> str:
        """Where the broker stored it. The messages of one inner batch have the same place."""
        return (self.store_address + _INT64.pack(self.commit_log_offset)).hex().upper()

    @property
    def born_host(self) -> str:
        """Who sent it, as `10.0.0.7:41234` or `[fe80::7]:41234`."""
        return _host(self.born_address)

    @property
    def store_host(self) -> str:
        """The broker that stored it."""
        return _host(self.store_address)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that is there and cannot be read: its body is not what was sent."""

    message: StoredMessage
    """As it is stored: the body is neither checked nor expanded."""
    reason: str
    stop: int
    """Behind its last offset: the body may have held a batch of messages."""

    @property
    def queue(self) -> MessageQueue:
        """Where it is."""
        return MessageQueue(self.message.topic, self.message.broker, self.message.queue_id)

    @property
    def first(self) -> int:
        """Its first offset."""
        return self.message.queue_offset

    @property
    def is_batch(self) -> bool:
        """Whether its body held messages, of which nobody knows how many there were."""
        return self.message.sys_flag & wire.WRAPPED == wire.WRAPPED


def _are_texts(values: Iterable[object]) -> bool:
    try:
        "".join(values)  # type: ignore[arg-type]  # the quickest way to find out
    except TypeError:
        return False
    return True


def common_topic(messages: Sequence[Message]) -> str:
    """Tell the one topic of these messages. A `UsageError` if there is none, or more than one."""
    topics = sorted({message.topic for message in messages})
    if len(topics) != 1:
        raise errors.UsageError(
            f"messages to {topics}: a batch goes to one topic, and is not empty"
        )
    return topics[0]


def encode_batch(messages: Sequence[Message], unique_keys: Sequence[str]) -> bytes:
    """Write several messages of one topic as the body of a batch send, with an id for each."""
    common_topic(messages)
    if len(messages) > batch_body.MOST_MESSAGES:
        raise errors.UsageError(
            f"a batch of {len(messages):,} messages: split it, as a broker counts up to "
            f"{batch_body.MOST_MESSAGES:,} and beyond that gives wrong offsets"
        )
    if any(message.delay_level or message.deliver_at_ms for message in messages):
        raise errors.UsageError("a broker delivers no batch later: send these messages one by one")
    return batch_body.encode(
        [
            (message.flag, message.body, properties.encode(message.wire_properties(unique_key)))
            for message, unique_key in zip(messages, unique_keys, strict=True)
        ]
    )


def decode(
    data: bytes | bytearray | memoryview,
    broker: str,
    *,
    check_crc: bool = True,
    expanded_max: int = EXPANDED_MAX,
) -> Iterator[StoredMessage]:
    """
    Read the messages of a pull's answer, one after the other.

    A queue that keeps batches answers with the whole batch that holds the offset asked for, so the
    first messages may lie below it. Raises `ProtocolError` where the bytes are no message, and
    `CorruptMessageError` where the checksum is wrong or the body does not expand.
    """
    view = memoryview(data).cast("B")
    room = expanded_max
    for start, end in pairwise([*wire.starts(view), len(view)]):
        stored = _stored(view[start:end], start, broker, check_crc)
        if stored is None:
            continue
        outer = _expanded(stored, room)
        room -= len(outer.body) if outer is not stored else 0
        if outer.sys_flag & wire.WRAPPED != wire.WRAPPED:
            yield outer
            continue
        overhead = end - start - len(stored.body)
        parts = _parts(outer, room // overhead)
        room -= len(parts) * overhead
        yield from (_inner(outer, part, place) for place, part in enumerate(parts))


def without_unreadable(
    data: bytes | bytearray | memoryview,
    broker: str,
    unreadable: list[Unreadable],
    *,
    first: int | None = None,
    stop: int | None = None,
    wanted: Filter = EVERYTHING,
    check_crc: bool = True,
    expanded_max: int = EXPANDED_MAX,
) -> bytes:
    """
    Leave out what cannot be read, and add it to a list; each message is tried for itself.

    What lies before `first`, or from `stop` on, or is not wanted, is not added. Nobody knows the
    tags in a batch that is broken.
    """
    view = memoryview(data).cast("B")
    whole: list[memoryview] = []
    begun = [*wire.starts(view), len(view)]
    for start, end in pairwise(begun):
        record = view[start:end]
        try:
            list(decode(record, broker, check_crc=check_crc, expanded_max=expanded_max))
        except errors.CorruptMessageError as error:
            found = _unreadable(record, broker, error.complaint, view[end:], stop)
            is_asked_for = (stop is None or found.first < stop) and found.stop > (first or 0)
            if is_asked_for and (found.is_batch or wanted.matches(found.message.tags)):
                unreadable.append(found)
        else:
            whole.append(record)
    return b"".join(whole)


def _unreadable(
    record: memoryview, broker: str, reason: str, following: memoryview, stop: int | None
) -> Unreadable:
    message, _ = _parsed(record, broker, _length_of_topic(record))
    found = Unreadable(message, reason, message.queue_offset + 1)
    if not found.is_batch:
        return found
    if len(following) >= wire.LEAST:
        (stop,) = _INT64.unpack_from(following, wire.QUEUE_OFFSET)
    return replace(found, stop=max(found.stop, stop or 0))


def _stored(record: memoryview, start: int, broker: str, check_crc: bool) -> StoredMessage | None:
    """Read a message as it is, with its stored body. None: it is a blank."""
    (magic,) = _UINT32.unpack_from(record, wire.MAGIC)
    if magic == wire.BLANK:
        return None
    if magic not in (wire.V1, wire.V2):
        raise errors.ProtocolError(f"message at byte {start}: magic number {magic:#x} is unknown")
    try:
        message, crc = _parsed(record, broker, _length_of_topic(record))
    except struct.error as error:
        raise errors.ProtocolError(f"message at byte {start} is broken: {error}") from error
    if check_crc and (found := wire.crc(message.body)) != crc:
        raise _corrupt(message, f"the checksum of its body is {found:#x}, not {crc:#x}")
    return message


def _length_of_topic(record: memoryview) -> Struct:
    (magic,) = _UINT32.unpack_from(record, wire.MAGIC)
    return _UINT8 if magic == wire.V1 else _INT16


def _parsed(record: memoryview, broker: str, length: Struct) -> tuple[StoredMessage, int]:
    _, _, crc, queue_id, flag, offset, place, sys_flag, born_ms = wire.HEAD.unpack_from(record)
    rest = _RESTS[sys_flag & (wire.BORN_V6 | wire.STORE_V6)]
    born, stored_ms, store, times, prepared, body_length = rest.unpack_from(record, wire.HEAD.size)
    body = wire.HEAD.size + rest.size
    topic = body + body_length + length.size
    (topic_length,) = length.unpack_from(record, topic - length.size)
    texts = topic + topic_length + _INT16.size
    (texts_length,) = _INT16.unpack_from(record, texts - _INT16.size)
    # A negative length took a step back, perhaps onto bytes that can be read: so only now.
    if min(body_length, topic_length, texts_length) < 0 or texts + texts_length > len(record):
        raise struct.error(f"lengths {body_length}, {topic_length}, {texts_length} do not fit in")
    message = StoredMessage(
        topic=str(record[topic : topic + topic_length], "utf-8", "replace"),
        broker=broker,
        queue_id=queue_id,
        queue_offset=offset,
        body=bytes(record[body : body + body_length]),
        properties=properties.parse(record[texts : texts + texts_length]),
        flag=flag,
        sys_flag=sys_flag,
        born_timestamp_ms=born_ms,
        born_address=born,
        store_timestamp_ms=stored_ms,
        store_address=store,
        reconsume_times=times,
        prepared_transaction_offset=prepared,
        commit_log_offset=place,
    )
    return message, crc


def _expanded(stored: StoredMessage, room: int) -> StoredMessage:
    """Expand the body, to at most `room` bytes. The same object: it was not compressed."""
    try:
        body = bytes(compression.restore(stored.body, stored.sys_flag, room))
    except errors.ProtocolError as error:
        raise _corrupt(stored, str(error)) from error
    return stored if body is stored.body else replace(stored, body=body)


def _parts(outer: StoredMessage, most: int) -> list[batch_body.BatchPart]:
    """Take an inner batch apart, into so many messages at most."""
    try:
        parts = batch_body.parts(outer.body, most)
    except errors.ProtocolError as error:
        raise _corrupt(outer, str(error)) from error
    if outer.queue_offset + len(parts) - 1 > OFFSET_MAX:
        raise _corrupt(outer, f"it holds {len(parts)} messages, more than there are offsets")
    return parts


def _inner(outer: StoredMessage, part: batch_body.BatchPart, place: int) -> StoredMessage:
    """Make a message of an inner batch; they have consecutive offsets."""
    texts = outer.body[part.properties : part.properties + part.properties_length]
    return replace(
        outer,
        queue_offset=outer.queue_offset + place,
        flag=part.flag,
        body=outer.body[part.body : part.body + part.body_length],
        properties=properties.parse(texts),
    )


def _corrupt(message: StoredMessage, complaint: str) -> errors.CorruptMessageError:
    return errors.CorruptMessageError(
        complaint, message.topic, message.queue_id, message.queue_offset
    )


def _host(address: bytes) -> str:
    ip, port = ip_address(address[:-4]), int.from_bytes(address[-4:])
    return f"{ip}:{port}" if isinstance(ip, IPv4Address) else f"[{ip}]:{port}"
