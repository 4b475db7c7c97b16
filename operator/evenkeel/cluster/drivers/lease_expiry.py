"""
Decides when the Lease of a driver whose state is unknown has expired.

A driver that cannot renew its Lease ends before the Lease expires. Clocks of machines differ, so
the times in a Lease are not compared with this machine's clock: a Lease counts as expired after
this process has seen it unchanged for its whole duration.
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
"""The duration that is assumed for a Lease that does not contain its duration."""


@dataclass(frozen=True, slots=True)
class _SeenLease:
    """A version of a Lease, and when this process first saw it."""

    version: str
    since: float


class LeaseExpiry:
    """The last seen Leases of groups. A Lease is read only while the driver's state is unknown."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without any Leases."""
        self._api = api
        self._clock = clock
        self._seen: dict[Key, _SeenLease] = {}
        """The last seen Lease of each group."""

    async def take_back(self, group: ConsumerGroup, holder: str) -> bool:
        """Take an expired Lease from its holder. Return whether the holder no longer has it."""
        path = paths.build_path(paths.LEASES, group.find_key(names.name_driver(group)))
        try:
            found = await self._api.get(path)
        except NotFoundError:
            return self._is_old(
                group.head.key, holder, HOLDS_SECONDS
            )  # the Lease was deleted, so the driver cannot renew it
        spec, version = found["spec"], found["metadata"]["resourceVersion"]
        if spec.get("holderIdentity") != holder:
            return True
        duration = spec.get("leaseDurationSeconds") or HOLDS_SECONDS
        if not self._is_old(group.head.key, f"{holder} {version}", duration):
            return False
        try:
            await self._api.replace(path, {**found, "spec": {**spec, "holderIdentity": ""}})
        except ConflictError:  # the driver renewed it at the last moment
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
