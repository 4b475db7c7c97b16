"""Decide when a change of a measured figure is worth a write of the status. Pure."""

import msgspec

from contract.kinds.groups import GroupStatus


def set_lag(old: GroupStatus, new: GroupStatus, lag: int | None) -> GroupStatus:
    """
    Set the lag in the new status, or return the old status if only measured figures have changed.

    A change of the lag alone is written if its number of digits changes. A change of the imbalance
    alone is never written: with weights by rate it changes all the time.
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
