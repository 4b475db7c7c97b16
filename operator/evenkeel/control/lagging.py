"""When a lag is worth a write: with another change, or when its order of magnitude is another."""

import msgspec

from evenkeel.api.groups import GroupStatus


def noted(old: GroupStatus, new: GroupStatus, lag: int | None) -> GroupStatus:
    """Put the lag into a status, unless it would be the only change and a small one."""
    if lag is None or (new == old and len(str(lag)) == len(str(old.lag))):
        return new
    return msgspec.structs.replace(new, lag=lag)
