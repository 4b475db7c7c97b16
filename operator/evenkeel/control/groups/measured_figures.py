"""Decides when a changed measurement, such as the lag, is written to the status. Pure."""

import msgspec

from contract.kinds.groups import BrokerStore, GroupStatus, WaitingSum
from evenkeel.control.groups.surroundings import GroupSurroundings


def set_measured(old: GroupStatus, new: GroupStatus, seen: GroupSurroundings) -> GroupStatus:
    """
    Set what was measured in the new status. Return the old status if it need not be written.

    If only these figures change, the status is written when a number of messages has more or fewer
    digits, when pops begin or cease to wait, or when there are other dead letters or stores. If
    only the imbalance changes, the status is not written: with weights by rate it changes all the
    time.
    """
    lag = old.lag if seen.lag is None else seen.lag
    waiting = old.waiting if seen.waiting is None else seen.waiting
    dead = old.dead_letters if seen.dead_letters is None else seen.dead_letters
    stores = old.stores
    if seen.stores is not None:
        stores = [BrokerStore(broker, store) for broker, store in sorted(seen.stores.items())]
    unchanged = {
        "imbalance": old.imbalance,
        "best_imbalance": old.best_imbalance,
        "lag": old.lag,
        "waiting": old.waiting,
        "dead_letters": old.dead_letters,
        "stores": old.stores,
    }
    has_changed = msgspec.structs.replace(new, **unchanged) != old
    rounded = (dead, stores, _round(lag, waiting))
    before = (old.dead_letters, old.stores, _round(old.lag, old.waiting))
    if has_changed or rounded != before:
        return msgspec.structs.replace(
            new, lag=lag, waiting=waiting, dead_letters=dead, stores=stores
        )
    return old


def _round(lag: int | None, waiting: WaitingSum | None) -> tuple[int, ...]:
    """Return the number of digits of each number of messages, and whether pops wait."""
    digits = (0 if lag is None else len(str(lag)),)
    if waiting is None:
        return digits
    return (*digits, len(str(waiting.ready)), len(str(waiting.retries)), waiting.parked > 0)
