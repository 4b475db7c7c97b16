"""
Decides when the Lease of a driver whose state is unknown has expired.

A driver that cannot renew its Lease ends before the Lease expires. Clocks of machines differ, so a
Lease counts as expired after this process has seen it unchanged for its whole duration.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_client import Api
from evenkeel.cluster.api.api_errors import ConflictError, NotFoundError
from evenkeel.cluster.manifest import names
from evenkeel.objects import ConsumerGroup, Key

HOLDS_SECONDS = 30.0
"""Duration of a Lease that has none."""


@dataclass(frozen=True, slots=True)
class _SeenLease:
    """A version of a Lease, and since when it is the newest one."""

    version: str
    since: float


class LeaseExpiry:
    """The last seen Lease of each group; read only while its driver is to be given up."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without any Leases."""
        self._api = api
        self._clock = clock
        self._seen: dict[Key, _SeenLease] = {}
        """The Lease of each group."""

    async def take_back(self, group: ConsumerGroup, holder: str) -> bool:
        """Take an expired Lease from its holder; return whether the holder no longer has it."""
        path = paths.build_path(paths.LEASES, group.find_key(names.name_driver(group)))
        try:
            found = await self._api.get(path)
        except NotFoundError:
            return self._is_old(group.head.key, holder, HOLDS_SECONDS)  # it cannot be renewed
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
        if last is None or last.version != version:
            self._seen[key] = _SeenLease(version, now)
            return False
        return now - last.since >= seconds

    def forget(self, key: Key) -> None:
        """Drop the state of a deleted group."""
        self._seen.pop(key, None)
