"""
Restarts that nobody asked for come a few at a time. Pure.

A chart's upgrade changes what drivers are to run as: the image of jobs that name none, or how this
version of the operator makes pods. If all drivers ended for that at once, everything would stand
still at once, with an image that nobody has seen at work. So only a few restart side by side, and
the next one begins when one of them is at work again. One that does not come back keeps its turn,
so what is wrong about a new image stops these few jobs and no more.

What a user has changed restarts at once, and so does what does not run anyway.
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
"""Parts of a spec that change under a running driver."""


def asked(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> str:
    """Tell one wish of a user from another, as far as it needs a new driver."""
    spec = msgspec.to_builtins(group.spec)
    kept = {key: each for key, each in spec.items() if key not in OF_NO_RESTART}
    kept["job"] = {**(kept.get("job") or {}), "executors": None}
    by_hand = [group.head.annotations.get(each, "") for each in (RESTART, SKIP)]
    of_topics = [(str(key), msgspec.to_builtins(topics[key].spec)) for key in sorted(topics)]
    whole = msgspec.json.encode([kept, by_hand, of_topics], order="deterministic")
    return hashlib.sha256(whole).hexdigest()[:16]


class Staging:
    """Whose turn it is."""

    def __init__(self, at_once: int, is_away: Callable[[Key], bool]) -> None:
        """It is nobody's yet. `is_away` says whether a group that had its turn is still to come."""
        self._at_once = at_once
        self._is_away = is_away
        self._turns: set[Key] = set()
        self._waiting: set[Key] = set()

    @property
    def waiting(self) -> int:
        """Count the groups that wait for their turn."""
        return len(self._waiting)

    @property
    def restarting(self) -> int:
        """Count the groups whose turn it is."""
        return len(self._turns)

    def identity(self, key: Key, wanted: str, wish: str, driver: DriverSeen) -> str:
        """Tell as what a driver is to run now: as before, while others have their turn."""
        self._waiting.discard(key)
        is_at_work = driver.state is DriverState.RUNNING and driver.identity != wanted
        if not is_at_work or driver.asked not in ("", wish) or self._has_turn(key):
            return wanted
        self._waiting.add(key)
        return driver.identity

    def forget(self, key: Key) -> None:
        """Let a group that is gone wait for nothing."""
        self._waiting.discard(key)
        self._turns.discard(key)

    def _has_turn(self, key: Key) -> bool:
        self._turns = {each for each in self._turns if each == key or self._is_away(each)}
        if len(self._turns) < self._at_once:
            self._turns.add(key)
        return key in self._turns


def is_away(group: ConsumerGroup | None, driver: DriverSeen, wanted: str) -> bool:
    """Whether a job that restarts is not at work again, and ought to be."""
    job = group.spec.job if group is not None else None
    if group is None or job is None or not job.executors or group.spec.suspend:
        return False
    if driver.state is DriverState.ABSENT:
        return job.mode is not Mode.SCHEDULED  # else it waits for its next run
    is_at_work = driver.report is not None and bool(driver.report.slots)
    return driver.identity != wanted or not is_at_work
