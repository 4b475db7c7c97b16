"""The settings of a plan: the strategy, and how queues may move."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from lb_core import errors
from lb_core.model import LARGEST_AMOUNT, Queue, is_amount, quote, shorten

DEFAULT_STRATEGY = "STICKY"


class Zones(Enum):
    """Whether zones are ignored, preferred or required."""

    IGNORE = "Ignore"
    PREFER = "Prefer"
    REQUIRE = "Require"


@dataclass(frozen=True, slots=True)
class Policy:
    """
    The settings of a plan.

    RocketMQ's strategies and users' own strategies use `config`. STICKY uses `zones`, `weights`,
    `min_gain` and `max_moves`. Every strategy uses `pinned` and `grace_seconds`.
    """

    strategy: str = DEFAULT_STRATEGY
    config: Mapping[str, object] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()
    """Only these consumers may own queues. Empty: all."""
    zones: Zones = Zones.PREFER
    weights: Mapping[Queue, float] | None = None
    """The load of each queue; 1 for a queue that is not listed. None: every load is 1."""
    min_gain: float = 0.1
    """With weights, owners change only if the highest load falls by at least this share."""
    max_moves: int | str | None = None
    """
    Maximum number of chosen moves in a plan: a count, a share such as "25%", or None for no limit.
    """
    grace_seconds: float = 0.0
    """How long a lost consumer keeps its queues."""

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        if isinstance(self.pinned, str) or not all(isinstance(name, str) for name in self.pinned):
            raise errors.BadRequestError(f"pinned: {quote(self.pinned)} is not a set of ids")
        if not isinstance(self.zones, Zones):
            raise errors.BadRequestError(
                f"zones: {quote(self.zones)} is not one of {list_zone_names()}"
            )
        if not is_amount(self.grace_seconds):
            raise errors.BadRequestError(
                f"grace: {quote(self.grace_seconds)} seconds is not a duration"
            )
        if not is_amount(self.min_gain) or self.min_gain > 1:
            raise errors.BadRequestError(
                f"minGain: {quote(self.min_gain)} is not a share from 0 to 1"
            )
        self.limit_moves(1)
        for queue, weight in (self.weights or {}).items():
            if not isinstance(queue, Queue):
                raise errors.BadRequestError(f"weights: {quote(queue)} is not a Queue")
            if not is_amount(weight):
                raise errors.BadWeightError(
                    f"queue {queue.id} of {shorten(queue.topic)} on {shorten(queue.broker)}: "
                    f"weight {quote(weight)} is not a number from 0 to {LARGEST_AMOUNT:.0e}"
                )

    def limit_moves(self, queues: int) -> float:
        """Return how many chosen moves a plan for this number of queues may make."""
        if self.max_moves is None:
            return math.inf
        if isinstance(self.max_moves, str):
            return max(1, math.ceil(read_share(self.max_moves, "maxMoves") * queues))
        if isinstance(self.max_moves, bool) or not isinstance(self.max_moves, int):
            raise errors.BadRequestError(
                f"maxMoves: {quote(self.max_moves)} is not a count or share"
            )
        if self.max_moves < 0:
            raise errors.BadRequestError(f"maxMoves: {quote(self.max_moves)} is below zero")
        return self.max_moves


def list_zone_names() -> str:
    """List the values of `zones`, for a message."""
    return ", ".join(zones.value for zones in Zones)


def read_share(text: str, name: str) -> Fraction:
    """Read "10%" as exactly a tenth. With floats, 7% of 100 would be 7.000000000000001."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%", text)
    if match is None or Fraction(match[1]) > 100:
        raise errors.BadRequestError(
            f'{name}: {quote(text)} is not a share such as "25%" (at most 100%)'
        )
    return Fraction(match[1]) / 100
