"""The reasons why a queue changes its owner."""

from enum import StrEnum


class Reason(StrEnum):
    """Reasons as plans, statuses and metrics show them."""

    NEW_QUEUE = "new queue"
    """The queue gets its first owner. This does not count as a move."""
    JOINED = "joined"
    """The new owner has just joined the group."""
    LEFT = "left"
    """The old owner is gone."""
    REPLACED = "replaced"
    """The old owner is gone, and the new one came in the same plan."""
    BALANCE = "balance"
    """Loads were uneven."""
    ZONE = "zone"
    """The new owner is in the zone of the queue's broker."""
    DRAINING = "draining"
    """The old owner is being drained."""
    NOT_PINNED = "not pinned"
    """The old owner is not among the pinned consumers."""
    NO_CAPACITY = "no capacity"
    """The old owner has a capacity of 0."""
    NOBODY_ELIGIBLE = "nobody eligible"
    """No consumer may own the queue."""
    STRATEGY = "strategy"
    """A strategy other than STICKY decided. The move shows the strategy's name instead."""


FOR_MOVES = tuple(reason for reason in Reason if reason is not Reason.NEW_QUEUE)
"""The reasons of moves of queues that had an owner."""


def classify(text: str) -> Reason:
    """Return the reason that a move shows as `text`. An unknown text is the name of a strategy."""
    return Reason(text) if text in _TEXTS else Reason.STRATEGY


_TEXTS = frozenset(reason.value for reason in Reason)
