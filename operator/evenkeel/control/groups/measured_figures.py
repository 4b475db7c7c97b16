"""Decides when a changed measurement, such as the lag, is written to the status. Pure."""

import msgspec

from contract.kinds.groups import Backlog, GroupStatus
from evenkeel.control.groups.surroundings import GroupSurroundings


def set_measured(old: GroupStatus, new: GroupStatus, seen: GroupSurroundings) -> GroupStatus:
    """
    Set lag and backlog in the new status. Return the old status if only measurements have changed.

    If only these figures change, the status is written when a number of messages has more or fewer
    digits, or when pops begin or cease to wait. If only the imbalance changes, the status is not
    written: with weights by rate it changes all the time.
    """
    lag = old.lag if seen.lag is None else seen.lag
    backlog = old.backlog if seen.backlog is None else seen.backlog
    unchanged = {
        "imbalance": old.imbalance,
        "best_imbalance": old.best_imbalance,
        "lag": old.lag,
        "backlog": old.backlog,
    }
    has_changed = msgspec.structs.replace(new, **unchanged) != old
    if has_changed or _round(lag, backlog) != _round(old.lag, old.backlog):
        return msgspec.structs.replace(new, lag=lag, backlog=backlog)
    return old


def _round(lag: int | None, backlog: Backlog | None) -> tuple[int, ...]:
    """Return the number of digits of each number of messages, and whether pops wait."""
    digits = (0 if lag is None else len(str(lag)),)
    if backlog is None:
        return digits
    return (*digits, len(str(backlog.ready)), len(str(backlog.retries)), backlog.parked > 0)
