"""Decides when a changed measurement, such as the lag, is written to the status. Pure."""

from datetime import datetime

import msgspec

from contract.kinds.groups import BrokerStore, GroupStatus, WaitingSum
from evenkeel import times
from evenkeel.control.groups.surroundings import GroupSurroundings


def set_measured(
    old: GroupStatus, new: GroupStatus, seen: GroupSurroundings, now: datetime
) -> GroupStatus:
    """
    Set what was measured in the new status. Return the old status if it need not be written.

    If only these figures change, the status is written when a number of messages, or the age of the
    oldest one in seconds, has more or fewer digits, when pops begin or cease to wait, or when there
    are other dead letters or stores. If only the imbalance changes, the status is not written: with
    weights by rate it changes all the time.
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
    rounded = (dead, stores, _round(lag, waiting, now))
    before = (old.dead_letters, old.stores, _round(old.lag, old.waiting, now))
    if has_changed or rounded != before:
        return msgspec.structs.replace(
            new, lag=lag, waiting=waiting, dead_letters=dead, stores=stores
        )
    return old


def _round(lag: int | None, waiting: WaitingSum | None, now: datetime) -> tuple[int, ...]:
    """Return the number of digits of each number and age, and whether pops wait."""
    found = [lag]
    if waiting is not None:
        age = int(times.measure_since(waiting.oldest, now)) if waiting.oldest else None
        found += [waiting.ready, waiting.retries, age]
    digits = [0 if each is None else len(str(each)) for each in found]
    return (*digits, waiting is not None and waiting.parked > 0)
