"""Decides when a changed measurement, such as the lag, is written to the status. Pure."""

import msgspec

from contract.kinds.groups import GroupStatus


def set_lag(old: GroupStatus, new: GroupStatus, lag: int | None) -> GroupStatus:
    """
    Set the lag in the new status. Return the old status if only measurements have changed.

    If only the lag changes, the status is written when the lag's number of digits changes. If only
    the imbalance changes, the status is not written: with weights by rate it changes all the time.
    """
    lag = old.lag if lag is None else lag
    measured = {"imbalance": old.imbalance, "best_imbalance": old.best_imbalance}
    if msgspec.structs.replace(new, lag=old.lag, **measured) != old:
        return msgspec.structs.replace(new, lag=lag)
    if _count_digits(lag) == _count_digits(old.lag):
        return old
    return msgspec.structs.replace(new, lag=lag)


def _count_digits(lag: int | None) -> int:
    return 0 if lag is None else len(str(lag))
