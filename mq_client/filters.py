"""
Which messages of a topic a consumer wants: all, those with some tags, or those an SQL92 text picks.

The broker compares hashes of tags, so messages with another tag may come through; `matches` sorts
them out. SQL92 needs `enablePropertyFilter=true` on the broker.
"""

from dataclasses import dataclass, field
from typing import Any

from mq_client import errors

ALL = "*"
SQL = "SQL92"
BETWEEN_TAGS = "||"


@dataclass(frozen=True, slots=True)
class Filter:
    """What is wanted; made by `tags` or `sql`, or `EVERYTHING`."""

    expression: str = ALL
    kind: str = "TAG"
    names: frozenset[str] = field(default=frozenset())

    @property
    def is_everything(self) -> bool:
        """Whether no message is left out."""
        return self.expression == ALL and not self.is_sql

    @property
    def is_sql(self) -> bool:
        """Whether it is a text that brokers must understand."""
        return self.kind == SQL

    def matches(self, tag: str | None) -> bool:
        """Whether a message with this tag is wanted, as far as this side can tell."""
        return not self.names or tag in self.names

    def subscription(self, topic: str, version: int = 0) -> dict[str, Any]:
        """Describe it as heartbeats do."""
        return {
            "topic": topic,
            "subString": self.expression,
            "tagsSet": sorted(self.names),
            "codeSet": sorted(map(tag_hash, self.names)),
            "subVersion": version,
            "expressionType": self.kind,
        }


EVERYTHING = Filter()


def tags(expression: str) -> Filter:
    """Read `paid || refunded`; an empty text or `*` is everything."""
    if expression.strip() in ("", ALL):
        return EVERYTHING
    names = [name.strip() for name in expression.split(BETWEEN_TAGS)]
    if not all(names) or ALL in names:
        raise errors.UsageError(f"tag filter {expression!r}: tags are separated by ||, as a || b")
    return Filter(expression, names=frozenset(names))


def sql(expression: str) -> Filter:
    """Take an SQL92 condition on properties, such as `amount > 10 AND region = 'eu'`."""
    if not expression.strip():
        raise errors.UsageError("the SQL filter is empty")
    return Filter(expression, kind=SQL)


def tag_hash(tag: str) -> int:
    """Java's `String.hashCode`, which brokers keep of each message's tag."""
    value = 0
    data = tag.encode("utf-16-be", "surrogatepass")
    for place in range(0, len(data), 2):
        value = (31 * value + (data[place] << 8 | data[place + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value
