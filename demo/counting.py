"""Compares the messages that were sent with those that arrived."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Count:
    """The result of the demo."""

    sent: int
    consumed: int
    lost: int
    duplicated: int

    @property
    def is_clean(self) -> bool:
        """Whether every message arrived exactly once."""
        return not (self.lost or self.duplicated) and self.sent == self.consumed

    def __str__(self) -> str:
        """Format the result in one line."""
        return (
            f"sent {self.sent} consumed {self.consumed} "
            f"lost {self.lost} duplicated {self.duplicated}"
        )


def read_numbers(rows: Path) -> list[int]:
    """Read the numbers of all rows in the sink."""
    return [
        int(json.loads(line)["body"])
        for part in rows.glob("query=*/batch=*/part-*.json")
        for line in part.read_text().splitlines()
    ]


def count(sent: int, arrived: Iterable[int]) -> Count:
    """Compare the numbers 0 to `sent` - 1 with those that arrived."""
    times = Counter(arrived)
    return Count(
        sent,
        sum(times.values()),
        lost=sum(number not in times for number in range(sent)),
        duplicated=sum(each - 1 for each in times.values()),
    )
