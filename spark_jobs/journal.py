"""
What a batch's end writes into Spark's offset log, and offsets as JSON there and in options.

Offsets are `{"orders": {"broker-a": {"0": 23}}}`. Spark compares what is written as texts, so the
same offsets must always give the same text: all keys are sorted.
"""

from collections.abc import Callable, ItemsView, Mapping
from dataclasses import dataclass, field
from typing import Any

from mq_client import filters
from mq_client.errors import UsageError
from mq_client.filters import Filter
from mq_client.values import MessageQueue

Offsets = dict[MessageQueue, int]
Tree = dict[str, dict[str, dict[str, int]]]
EXAMPLE = '{"topic": {"broker": {"0": 23}}}'


def tree(offsets: Mapping[MessageQueue, int]) -> Tree:
    """Write offsets."""
    found: Tree = {}
    for queue in sorted(offsets):
        found.setdefault(queue.topic, {}).setdefault(queue.broker, {})[str(queue.id)] = offsets[
            queue
        ]
    return {
        topic: {broker: dict(sorted(ids.items())) for broker, ids in brokers.items()}
        for topic, brokers in found.items()
    }


def offsets(written: Any, least: int = 0) -> Offsets:
    """Read offsets; a `ValueError` says which part is wrong, and what offsets look like."""
    found: Offsets = {}
    for topic, brokers in _items(written, "offsets"):
        for broker, ids in _items(brokers, f"the brokers of topic {topic!r}"):
            for number, offset in _items(ids, f"the queues of topic {topic!r} on {broker!r}"):
                where = f"topic {topic!r}, broker {broker!r}, queue {number!r}"
                if not (number.isascii() and number.isdecimal()):
                    raise ValueError(f"{where}: a queue is a number; offsets look like {EXAMPLE}")
                if type(offset) is not int or offset < least:
                    raise ValueError(f"{where}: {offset!r} is not an offset from {least} on")
                found[MessageQueue(topic, broker, int(number))] = offset
    return found


def _items(written: Any, what: str) -> ItemsView[str, Any]:
    if not isinstance(written, dict):
        raise ValueError(f"{what} must be an object, as in {EXAMPLE}, and not {written!r}")
    return written.items()


@dataclass(frozen=True, slots=True)
class Entry:
    """What a checkpoint holds for the end of a batch."""

    offsets: Offsets
    """Of the queues that are read."""
    wanted: Filter
    """The filter of the batch that ends here."""
    aside: Offsets = field(default_factory=dict)
    """Where topics were left that are read no more."""
    is_begun: bool = True
    """Whether a batch was planned before: what appears now is new, and read from its beginning."""

    def parted(self, reads: Callable[[str], bool]) -> tuple[Offsets, Offsets, Offsets]:
        """Part the queues by topic: those that are read on, that are back, and that are aside."""
        known = self.offsets | self.aside
        at = {queue: offset for queue, offset in self.offsets.items() if reads(queue.topic)}
        back = {
            queue: offset
            for queue, offset in self.aside.items()
            if reads(queue.topic) and queue not in at
        }
        return at, back, {queue: known[queue] for queue in known.keys() - at.keys() - back.keys()}

    def written(self) -> dict[str, Any]:
        """Write it. What is the default stays away, so that older versions can read the rest."""
        found: dict[str, Any] = {
            "filter": {"expression": self.wanted.expression, "kind": self.wanted.kind},
            "offsets": tree(self.offsets),
        }
        if self.aside:
            found["aside"] = tree(self.aside)
        if self.is_begun and not self.offsets and not self.aside:
            found["begun"] = True
        return found


def read(written: dict[str, Any]) -> Entry:
    """Read what a checkpoint holds."""
    try:
        wanted, at = written["filter"], offsets(written["offsets"])
        aside = offsets(written.get("aside", {}))
        make = filters.match_sql if wanted["kind"] == filters.SQL else filters.match_tags
        is_begun = bool(at or aside or written.get("begun"))
        return Entry(at, make(wanted["expression"]), aside, is_begun)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"this checkpoint was not written by the rocketmq source ({error!r}): "
            "choose another checkpointLocation"
        ) from error
