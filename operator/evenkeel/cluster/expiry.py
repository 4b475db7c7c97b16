"""
When the Lease of a driver that nobody tells of has run out.

The driver ends by itself before that, wherever it is, if it cannot renew its Lease. Clocks of
machines differ, so what counts is for how long this process has seen the Lease unchanged.
"""

import time
from collections.abc import Callable

from evenkeel.cluster import paths
from evenkeel.cluster.api import Api, ConflictError, GoneError
from evenkeel.cluster.manifest import names
from evenkeel.objects import ConsumerGroup, Key

HOLDS_SECONDS = 30.0
"""So long a Lease holds that does not say it."""


class Expiry:
    """Leases as they were seen last; they are asked for only while somebody is to be given up."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        """Have seen none yet."""
        self._api = api
        self._clock = clock
        self._seen: dict[Key, tuple[str, float]] = {}
        """By group, the Lease's version and since when it is that one."""

    async def take_back(self, group: ConsumerGroup, holder: str) -> bool:
        """Take the Lease from this holder if it has run out; whether the holder has none now."""
        path = paths.one(paths.LEASES, group.beside(names.driver(group)))
        try:
            found = await self._api.get(path)
        except GoneError:
            return self._is_old(group.head.key, holder, HOLDS_SECONDS)  # nobody can renew it
        spec, version = found["spec"], found["metadata"]["resourceVersion"]
        if spec.get("holderIdentity") != holder:
            return True
        duration = spec.get("leaseDurationSeconds") or HOLDS_SECONDS
        if not self._is_old(group.head.key, f"{holder} {version}", duration):
            return False
        try:
            await self._api.replace(path, {**found, "spec": {**spec, "holderIdentity": ""}})
        except ConflictError:  # it was renewed at the last moment
            return False
        return True

    def _is_old(self, key: Key, version: str, seconds: float) -> bool:
        now, last = self._clock(), self._seen.get(key)
        if last is None or last[0] != version:
            self._seen[key] = (version, now)
            return False
        return now - last[1] >= seconds

    def forget(self, key: Key) -> None:
        """Keep nothing of a group that is gone."""
        self._seen.pop(key, None)
