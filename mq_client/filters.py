"""
A filter selects which messages of a topic a consumer reads, by tags or by an SQL92 condition.

The broker compares only hashes of tags, so it may return messages with another tag. `matches`
compares the tags themselves. SQL92 needs `enablePropertyFilter=true` on the broker.
"""

from dataclasses import dataclass, field
from typing import Any

from mq_client import errors

ALL = "*"
SQL = "SQL92"
BETWEEN_TAGS = "||"


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter: `EVERYTHING`, or one made by `match_tags` or `match_sql`."""

    expression: str = ALL
    kind: str = "TAG"
    names: frozenset[str] = field(default=frozenset())

    @property
    def is_everything(self) -> bool:
        """Whether it accepts every message."""
        return self.expression == ALL and not self.is_sql

    @property
    def is_sql(self) -> bool:
        """Whether it is an SQL92 condition, which only brokers evaluate."""
        return self.kind == SQL

    def matches(self, tag: str | None) -> bool:
        """Return whether the filter accepts this tag. SQL92 conditions accept any tag."""
        return not self.names or tag in self.names

    def to_subscription(self, topic: str, version: int = 0) -> dict[str, Any]:
        """Describe the filter as heartbeats do."""
        return {
            "topic": topic,
            "subString": self.expression,
            "tagsSet": sorted(self.names),
            "codeSet": sorted(map(hash_tag, self.names)),
            "subVersion": version,
            "expressionType": self.kind,
        }


EVERYTHING = Filter()


def match_tags(expression: str) -> Filter:
    """Make a filter from `paid || refunded`. An empty string or `*` accepts every message."""
    if expression.strip() in ("", ALL):
        return EVERYTHING
    names = [name.strip() for name in expression.split(BETWEEN_TAGS)]
    if not all(names) or ALL in names:
        raise errors.UsageError(f"tag filter {expression!r}: separate tags by ||, as in a || b")
    return Filter(expression, names=frozenset(names))


def match_sql(expression: str) -> Filter:
    """Make a filter from an SQL92 condition, such as `amount > 10 AND region = 'eu'`."""
    if not expression.strip():
        raise errors.UsageError("the SQL filter is empty")
    return Filter(expression, kind=SQL)


def hash_tag(tag: str) -> int:
    """Compute Java's `String.hashCode`. Brokers store this hash of each message's tag."""
    value = 0
    data = tag.encode("utf-16-be", "surrogatepass")
    for place in range(0, len(data), 2):
        value = (31 * value + (data[place] << 8 | data[place + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value
