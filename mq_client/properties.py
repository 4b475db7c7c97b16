r"""
A message's properties, as one text on the wire: `name \x01 value \x02`, repeated.

The names that the client knows stand here. Names are RocketMQ's own (its class MessageConst).
"""

from collections.abc import Mapping

from mq_client import errors

TAGS = "TAGS"
KEYS = "KEYS"
UNIQUE_KEY = "UNIQ_KEY"
DELAY_LEVEL = "DELAY"
DELIVER_AT_MS = "TIMER_DELIVER_MS"

NAME_END, VALUE_END = "\x01", "\x02"
MOST_BYTES = 32_767
"""Their length is a signed 16-bit number on the wire."""


def parse(data: bytes | memoryview) -> dict[str, str]:
    """
    Read them all. What has no name or no value is passed over, as RocketMQ 5 does.

    The last value needs no mark at its end: some senders save that byte. Of two values of one name
    the last one counts.
    """
    items = str(data, "utf-8", "replace").split(VALUE_END)
    pairs = (item.partition(NAME_END) for item in items)
    return {name: value for name, _, value in pairs if name and value}


def encode(values: Mapping[str, str]) -> bytes:
    """Write them. A `UsageError` if one of them would be read differently."""
    text = "".join([f"{name}{NAME_END}{value}{VALUE_END}" for name, value in values.items()])
    if "" in values or "" in values.values():
        raise errors.UsageError(f"properties {dict(values)}: no name and no value may be empty")
    if not text.count(NAME_END) == text.count(VALUE_END) == len(values):
        raise errors.UsageError(f"properties {dict(values)}: none may hold \\x01 or \\x02")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise errors.UsageError(f"properties that are no Unicode: {error}") from error
    if len(data) > MOST_BYTES:
        raise errors.UsageError(f"properties of {len(data):,} bytes: at most {MOST_BYTES:,}")
    return data
