r"""
A message's properties, sent as one string: `name \x01 value \x02`, repeated.

The constants are names of properties that the client knows, from RocketMQ's class MessageConst.
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
"""The length of all properties is sent as a signed 16-bit number."""


def parse(data: bytes) -> dict[str, str]:
    """
    Read all properties. Items without a name or a value are skipped, as in RocketMQ 5.

    The mark after the last value may be missing, because some senders omit it. If a name occurs
    twice, the last value counts.
    """
    items = data.decode("utf-8", "replace").split(VALUE_END)
    found = {}
    for item in items:
        name, _, value = item.partition(NAME_END)
        if name and value:
            found[name] = value
    return found


def join(values: Mapping[str, str]) -> str:
    """Write properties as they are sent, without checks."""
    return "".join([f"{name}{NAME_END}{value}{VALUE_END}" for name, value in values.items()])


def encode(values: Mapping[str, str]) -> bytes:
    """Encode properties. Raise a `UsageError` if a reader would get other properties back."""
    text = join(values)
    if "" in values or "" in values.values():
        raise errors.UsageError(f"properties {dict(values)}: names and values must not be empty")
    if not text.count(NAME_END) == text.count(VALUE_END) == len(values):
        raise errors.UsageError(f"properties {dict(values)}: none may contain \\x01 or \\x02")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise errors.UsageError(f"properties that cannot be encoded: {error}") from error
    if len(data) > MOST_BYTES:
        raise errors.UsageError(f"properties of {len(data):,} bytes: at most {MOST_BYTES:,}")
    return data
