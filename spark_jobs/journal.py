"""
Read and write offsets, ranges and filters as JSON, and the entries of Spark's offset log.

Offsets look like `{"orders": {"broker-a": {"0": 23}}}`. Spark compares log entries as strings, so
the same offsets must always give the same string: all keys are sorted.
"""

from collections.abc import Callable, ItemsView, Mapping
from dataclasses import dataclass, field
from typing import Any

from mq_client import filters
from mq_client.errors import UsageError
from mq_client.filters import Filter
from mq_client.values import MessageQueue
from spark_jobs.planning import Range

Offsets = dict[MessageQueue, int]
Row = tuple[str, str, int, int, int]
"""A range: topic, broker, queue, first offset, and the offset after the last one."""
Tree = dict[str, dict[str, dict[str, int]]]
EXAMPLE = '{"topic": {"broker": {"0": 23}}}'


def write_offsets(offsets: Mapping[MessageQueue, int]) -> Tree:
    """Write offsets as JSON, sorted."""
    found: Tree = {}
    for queue in sorted(offsets):
        found.setdefault(queue.topic, {}).setdefault(queue.broker, {})[str(queue.id)] = offsets[
            queue
        ]
    return {
        topic: {broker: dict(sorted(ids.items())) for broker, ids in brokers.items()}
        for topic, brokers in found.items()
    }


def read_offsets(written: Any, least: int = 0) -> Offsets:
    """Read offsets from JSON; a `ValueError` names the wrong part, and shows an example."""
    found: Offsets = {}
    for topic, brokers in _check_items(written, "offsets"):
        for broker, ids in _check_items(brokers, f"the brokers of topic {topic!r}"):
            for number, offset in _check_items(ids, f"the queues of topic {topic!r} on {broker!r}"):
                where = f"topic {topic!r}, broker {broker!r}, queue {number!r}"
                if not (number.isascii() and number.isdecimal()):
                    raise ValueError(f"{where}: the queue must be a number, as in {EXAMPLE}")
                if type(offset) is not int or offset < least:
                    raise ValueError(f"{where}: {offset!r} is not an offset of at least {least}")
                found[MessageQueue(topic, broker, int(number))] = offset
    return found


def _check_items(written: Any, what: str) -> ItemsView[str, Any]:
    if not isinstance(written, dict):
        raise ValueError(f"{what} must be an object, as in {EXAMPLE}, and not {written!r}")
    return written.items()


def write_range(part: Range) -> Row:
    """Write a range as JSON."""
    return (part.queue.topic, part.queue.broker, part.queue.id, part.start, part.stop)


def read_range(row: Row) -> Range:
    """Read a range from JSON."""
    topic, broker, number, start, stop = row
    return Range(MessageQueue(topic, broker, number), start, stop)


def write_filter(wanted: Filter) -> dict[str, str]:
    """Write a filter as JSON."""
    return {"expression": wanted.expression, "kind": wanted.kind}


def read_filter(written: Mapping[str, str]) -> Filter:
    """Read a filter from JSON."""
    make = filters.match_sql if written["kind"] == filters.SQL else filters.match_tags
    return make(written["expression"])


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a batch ends: an entry of Spark's offset log, or taken from a job's journal."""

    offsets: Offsets
    """Where the batch ends in each queue that is read."""
    wanted: Filter
    """The filter of the batch."""
    aside: Offsets = field(default_factory=dict)
    """Where reading stopped in the queues of inactive topics, which are no longer read."""
    is_begun: bool = True
    """Whether a batch was planned before. If so, new queues are read from their beginning."""

    def divide(self, reads: Callable[[str], bool]) -> tuple[Offsets, Offsets, Offsets]:
        """Divide the queues into three groups: still read, read again, and inactive."""
        known = self.offsets | self.aside
        at = {queue: offset for queue, offset in self.offsets.items() if reads(queue.topic)}
        back = {
            queue: offset
            for queue, offset in self.aside.items()
            if reads(queue.topic) and queue not in at
        }
        return at, back, {queue: known[queue] for queue in known.keys() - at.keys() - back.keys()}

    def write(self) -> dict[str, Any]:
        """Write the entry. Leave out defaults, so that older versions can read the entry."""
        found: dict[str, Any] = {
            "filter": write_filter(self.wanted),
            "offsets": write_offsets(self.offsets),
        }
        if self.aside:
            found["aside"] = write_offsets(self.aside)
        if self.is_begun and not self.offsets and not self.aside:
            found["begun"] = True
        return found


def read(written: dict[str, Any]) -> Entry:
    """Read an entry of the offset log."""
    try:
        at = read_offsets(written["offsets"])
        aside = read_offsets(written.get("aside", {}))
        is_begun = bool(at or aside or written.get("begun"))
        return Entry(at, read_filter(written["filter"]), aside, is_begun)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"this checkpoint was not written by the rocketmq source ({error!r}): "
            "choose another checkpointLocation"
        ) from error
