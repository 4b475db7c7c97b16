"""Messages as values: messages to send, and messages that a broker has stored."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address
from struct import Struct
from typing import NamedTuple

from mq_client import batch_body, errors, properties, wire
from mq_client.checks import INT32_MAX, INT64_MAX, is_whole
from mq_client.values import MessageQueue

TOPIC_MAX = 127
_INT64 = Struct(">q")
_BUFFERS = (bytes, bytearray, memoryview)
_OWN_PROPERTIES = frozenset(
    (properties.TAGS, properties.KEYS, properties.DELAY_LEVEL, properties.DELIVER_AT_MS)
)


@dataclass(frozen=True, slots=True)
class Message:
    """A message to be sent. Values that no broker can store raise a `UsageError`."""

    topic: str
    body: bytes
    """
    Buffers other than bytes are copied, because they may change. The body must not be empty, except
    in a batch.
    """
    tags: str | None = None
    """The one tag that filters compare. RocketMQ's name for it is a plural."""
    keys: tuple[str, ...] = ()
    """Words by which users can search for the message."""
    properties: Mapping[str, str] = field(default_factory=dict)
    delay_level: int | None = None
    """Deliver the message after the broker's delay for this level. Levels start at 1."""
    deliver_at_ms: int | None = None
    """Deliver the message at this time."""
    flag: int = 0
    """A number for the application. RocketMQ ignores it."""

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        if complaint := self._find_wrong_type() or self._find_fault():
            raise errors.UsageError(f"message to topic {self.topic!r}: {complaint}")
        if not isinstance(self.body, bytes):
            object.__setattr__(self, "body", bytes(self.body))

    def _find_wrong_type(self) -> str | None:
        if not isinstance(self.topic, str):
            return "the topic is not a string"
        if not isinstance(self.body, _BUFFERS):
            return f"its body is not bytes but {type(self.body).__name__}; call .encode() on a str"
        if self.tags is not None and not isinstance(self.tags, str):
            return f"tags {self.tags!r} is not a string"
        if self.keys and (isinstance(self.keys, str) or not _are_texts(self.keys)):
            return f"keys {self.keys!r} is not a tuple of strings"
        if self.properties and not (
            isinstance(self.properties, Mapping)
            and _are_texts(self.properties)
            and _are_texts(self.properties.values())
        ):
            return f"properties {self.properties!r} is not a mapping of strings"
        if not is_whole(self.flag, -INT32_MAX - 1, INT32_MAX):
            return f"flag {self.flag!r} is not a signed 32-bit number"
        if self.delay_level is not None and not is_whole(self.delay_level, 1, INT32_MAX):
            return f"delay_level {self.delay_level!r} is not a whole number from 1"
        if self.deliver_at_ms is not None and not is_whole(self.deliver_at_ms, 1, INT64_MAX):
            return f"deliver_at_ms {self.deliver_at_ms!r} is not a time in milliseconds since 1970"
        return None

    def _find_fault(self) -> str | None:
        if not self.topic:
            return "the topic is empty"
        if len(self.topic) > TOPIC_MAX:
            return f"the topic's name has {len(self.topic)} characters, more than {TOPIC_MAX}"
        if self.keys and ("" in self.keys or " " in "".join(self.keys)):
            return f"keys {self.keys}: no key may be empty or contain a space, which separates keys"
        if self.delay_level is not None and self.deliver_at_ms is not None:
            return "both delay_level and deliver_at_ms are given"
        if self.properties and (own := sorted(_OWN_PROPERTIES & self.properties.keys())):
            return f"properties {', '.join(own)}: use the fields of Message for these properties"
        return None

    @property
    def unique_key(self) -> str | None:
        """The message id, if the message has one already."""
        return self.properties.get(properties.UNIQUE_KEY)

    def make_wire_properties(self, unique_key: str) -> dict[str, str]:
        """List all properties as the broker stores them. If the message has no id, add this one."""
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


class StoredMessage(NamedTuple):
    """A message as a broker stored it, except that its body is expanded."""

    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    body: bytes
    properties: Mapping[str, str]
    flag: int
    sys_flag: int
    """The sysFlag of the stored message, which still shows how the body was compressed."""
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
        """The words by which users can search for the message."""
        return tuple(self.properties.get(properties.KEYS, "").split())

    @property
    def msg_id(self) -> str:
        """The producer's id; if there is none, the place where the broker stored the message."""
        return self.properties.get(properties.UNIQUE_KEY) or self.offset_msg_id

    @property
    def offset_msg_id(self) -> str:
        """The place where the broker stored the message; the same for a whole inner batch."""
        return (self.store_address + _INT64.pack(self.commit_log_offset)).hex().upper()

    @property
    def born_host(self) -> str:
        """The producer's address, as `10.0.0.7:41234` or `[fe80::7]:41234`."""
        return _format_host(self.born_address)

    @property
    def store_host(self) -> str:
        """The address of the broker that stored it."""
        return _format_host(self.store_address)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A stored message that cannot be read, because its body is corrupt."""

    message: StoredMessage
    """The message with its stored body, which is neither checked nor expanded."""
    reason: str
    stop: int
    """The offset after the message's last one. If its body is a batch, it has several offsets."""

    @property
    def queue(self) -> MessageQueue:
        """The queue of the message."""
        return MessageQueue(self.message.topic, self.message.broker, self.message.queue_id)

    @property
    def first(self) -> int:
        """The first offset of the message."""
        return self.message.queue_offset

    @property
    def is_batch(self) -> bool:
        """Whether the body is a batch. Then the number of its messages is unknown."""
        return self.message.sys_flag & wire.WRAPPED == wire.WRAPPED


def _are_texts(values: Iterable[object]) -> bool:
    try:
        "".join(values)  # type: ignore[arg-type]  # the fastest check
    except TypeError:
        return False
    return True


def find_common_topic(messages: Sequence[Message]) -> str:
    """Return the topic that all messages have. Raise a `UsageError` if there is not exactly one."""
    topics = sorted({message.topic for message in messages})
    if len(topics) != 1:
        raise errors.UsageError(
            f"a batch needs messages to exactly one topic, but the topics are {topics}"
        )
    return topics[0]


def encode_batch(messages: Sequence[Message], unique_keys: Sequence[str]) -> bytes:
    """Encode several messages of one topic, each with an id, as the body of a batch."""
    find_common_topic(messages)
    if len(messages) > batch_body.MOST_MESSAGES:
        raise errors.UsageError(
            f"a batch of {len(messages):,} messages: split it, because brokers count only "
            f"up to {batch_body.MOST_MESSAGES:,} and return wrong offsets beyond that"
        )
    if any(message.delay_level or message.deliver_at_ms for message in messages):
        raise errors.UsageError("brokers cannot delay a batch: send these messages one by one")
    return batch_body.encode(
        [
            (
                message.flag,
                message.body,
                properties.encode(message.make_wire_properties(unique_key)),
            )
            for message, unique_key in zip(messages, unique_keys, strict=True)
        ]
    )


def _format_host(address: bytes) -> str:
    ip, port = ip_address(address[:-4]), int.from_bytes(address[-4:])
    return f"{ip}:{port}" if isinstance(ip, IPv4Address) else f"[{ip}]:{port}"
