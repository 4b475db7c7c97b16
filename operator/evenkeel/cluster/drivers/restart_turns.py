"""
Limits how many drivers restart at a time, if no user asked for the restarts. Pure.

An upgrade of the chart may change the pods of all drivers: the default image changes, or the new
operator builds pods in another way. If all drivers restarted at once, all jobs would stop at once,
perhaps with a broken image. So only a few restart at a time, and the next one restarts when one of
them runs again. A job that does not run again keeps its turn, so a broken image stops only these
few jobs.

This limit does not apply to jobs that a user has changed, nor to jobs that do not run.
"""

import hashlib
from collections.abc import Callable, Mapping

import msgspec

from contract.kinds.jobs import Mode
from contract.names import RESTART, SKIP
from evenkeel.control.jobs.states import DriverSeen, DriverState
from evenkeel.objects import ConsumerGroup, Key, Topic

AT_ONCE = 5
OF_NO_RESTART = ("rebalance", "strategy", "suspend")
"""Parts of a spec that a running driver adopts without a restart."""


def hash_wish(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> str:
    """Compute a fingerprint of the settings that need a new driver when a user changes them."""
    spec = msgspec.to_builtins(group.spec)
    kept = {key: each for key, each in spec.items() if key not in OF_NO_RESTART}
    kept["job"] = {**(kept.get("job") or {}), "executors": None}
    by_hand = [group.head.annotations.get(each, "") for each in (RESTART, SKIP)]
    of_topics = [(str(key), msgspec.to_builtins(topics[key].spec)) for key in sorted(topics)]
    whole = msgspec.json.encode([kept, by_hand, of_topics], order="deterministic")
    return hashlib.sha256(whole).hexdigest()[:16]


class RestartTurns:
    """Decides which groups may restart now."""

    def __init__(self, at_once: int, is_away: Callable[[Key], bool]) -> None:
        """Begin without turns. `is_away` tells whether a restarted group still does not run."""
        self._at_once = at_once
        self._is_away = is_away
        self._turns: set[Key] = set()
        self._waiting: set[Key] = set()

    @property
    def waiting(self) -> int:
        """How many groups wait for their turn."""
        return len(self._waiting)

    @property
    def restarting(self) -> int:
        """How many groups restart now."""
        return len(self._turns)

    def choose_identity(self, key: Key, wanted: str, wish: str, driver: DriverSeen) -> str:
        """Return the identity that a driver must have now: until its turn, the old identity."""
        self._waiting.discard(key)
        is_at_work = driver.state is DriverState.RUNNING and driver.identity != wanted
        if not is_at_work or driver.asked not in ("", wish) or self._has_turn(key):
            return wanted
        self._waiting.add(key)
        return driver.identity

    def forget(self, key: Key) -> None:
        """Drop the state of a deleted group."""
        self._waiting.discard(key)
        self._turns.discard(key)

    def _has_turn(self, key: Key) -> bool:
        self._turns = {each for each in self._turns if each == key or self._is_away(each)}
        if len(self._turns) < self._at_once:
            self._turns.add(key)
        return key in self._turns


def is_away(group: ConsumerGroup | None, driver: DriverSeen, wanted: str) -> bool:
    """Whether a restarting job does not run again yet, although it should."""
    job = group.spec.job if group is not None else None
    if group is None or job is None or not job.executors or group.spec.suspend:
        return False
    if driver.state is DriverState.ABSENT:
        return job.mode is not Mode.SCHEDULED  # a scheduled job waits for its next run
    is_at_work = driver.report is not None and bool(driver.report.slots)
    return driver.identity != wanted or not is_at_work
