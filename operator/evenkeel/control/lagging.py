"""When figures that change all the time are worth a write. Pure."""

import msgspec

from contract.kinds.groups import GroupStatus


def noted(old: GroupStatus, new: GroupStatus, lag: int | None) -> GroupStatus:
    """
    Put the lag into a status, unless measured figures would be all that changes.

    A lag alone is worth a write when its order of magnitude is another; a balance by rates never.
    """
    lag = old.lag if lag is None else lag
    measured = {"imbalance": old.imbalance, "best_imbalance": old.best_imbalance}
    if msgspec.structs.replace(new, lag=old.lag, **measured) != old:
        return msgspec.structs.replace(new, lag=lag)
    return old if _digits(lag) == _digits(old.lag) else msgspec.structs.replace(new, lag=lag)


def _digits(lag: int | None) -> int:
    return 0 if lag is None else len(str(lag))
