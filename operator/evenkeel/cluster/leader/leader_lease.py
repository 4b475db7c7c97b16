"""
Leader election with a Lease, as in Kubernetes' own controllers.

The election of Kubernetes' client library is not used. That election relies on the wall clock,
which may jump. It gives up at the first broken connection, its requests have no time limit, and it
does not release the Lease. Here a Lease counts as expired after this process has seen it unchanged
for the whole duration of the Lease.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_client import Api, ApiRequest, Document
from evenkeel.cluster.api.api_errors import ConflictError, NotFoundError
from evenkeel.cluster.leader import fence
from evenkeel.cluster.leader.fence import Fence
from evenkeel.cluster.leader.lease_terms import LeaderTerms
from evenkeel.errors import EvenkeelError
from evenkeel.objects import Key

log = logging.getLogger("evenkeel")


class LeaderLease:
    """One candidate for leadership."""

    def __init__(self, api: Api, key: Key, identity: str, terms: LeaderTerms, own: Fence) -> None:
        """Prepare the candidate. The fence is open while the candidate leads."""
        self._fence = own
        own.close()
        self._api = api
        self._key = key
        self._identity = identity
        self._terms = terms
        self._seen: Document | None = None
        self._seen_at = 0.0
        self.is_leading = False
        self.in_trouble: Callable[[], None] = lambda: None
        """Called when the API server does not answer."""

    async def keep(
        self, begin: Callable[[], Awaitable[None]], end: Callable[[], Awaitable[None]]
    ) -> None:
        """Lead whenever possible, until cancelled. Then release the Lease."""
        try:
            while True:
                renewed = fence.read_clock()
                if await self._try_to_take():
                    await self._lead(renewed, begin, end)
                await asyncio.sleep(self._terms.period)
        finally:
            if self.is_leading:
                await self._stop(end)
                await self._give_back()

    async def _lead(
        self,
        renewed: float,
        begin: Callable[[], Awaitable[None]],
        end: Callable[[], Awaitable[None]],
    ) -> None:
        log.info("%s leads", self._identity)
        self.is_leading = True
        self._open_fence(renewed)
        await begin()
        while fence.read_clock() - renewed < self._terms.deadline:
            await asyncio.sleep(self._terms.period)
            now = fence.read_clock()
            try:
                async with asyncio.timeout(self._terms.deadline - (now - renewed)):
                    if await self._try_to_take():
                        renewed = now
                        self._open_fence(renewed)
                    elif self._is_anothers():
                        break
            except (TimeoutError, ValueError):
                break
        log.warning("%s no longer leads", self._identity)
        self._fence.close()
        await self._stop(end)

    def _open_fence(self, renewed: float) -> None:
        self._fence.open(renewed + self._terms.deadline, renewed + self._terms.duration)

    async def _stop(self, end: Callable[[], Awaitable[None]]) -> None:
        """Start no more work, and finish the work in progress before the Lease expires."""
        self.is_leading = False
        await end()
        self._fence.close()

    async def _try_to_take(self) -> bool:
        """Take the Lease if it is free, or renew it if this candidate holds it."""
        try:
            async with asyncio.timeout(self._terms.deadline):
                return await self._take()
        except EvenkeelError as error:
            log.warning("the lease %s: %s", self._key, error)
        except TimeoutError:
            log.warning("the lease %s: the API server does not answer", self._key)
        self.in_trouble()
        return False

    async def _take(self) -> bool:
        path = paths.build_path(paths.LEASES, self._key)
        try:
            found = await self._api.get(path)
        except NotFoundError:
            await self._create()
            return True
        if self._seen is None or found["spec"] != self._seen["spec"]:
            self._seen, self._seen_at = found, fence.read_clock()
        if self._is_anothers() and not self._is_over(found):
            return False
        try:
            self._seen = await self._api.ask_unfenced(
                ApiRequest("PUT", path, self._build_held(found))
            )
        except ConflictError:
            return False
        self._seen_at = fence.read_clock()
        return True

    def _is_anothers(self) -> bool:
        holder = (self._seen or {}).get("spec", {}).get("holderIdentity")
        return bool(holder) and holder != self._identity

    def _is_over(self, found: Document) -> bool:
        seconds = found["spec"].get("leaseDurationSeconds") or self._terms.duration
        return fence.read_clock() - self._seen_at > seconds

    async def _create(self) -> None:
        document = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._key.name, "namespace": self._key.namespace},
            "spec": {},
        }
        place = paths.build_list_path(paths.LEASES, self._key.namespace)
        self._seen = await self._api.ask_unfenced(
            ApiRequest("POST", place, self._build_held(document))
        )
        self._seen_at = fence.read_clock()

    def _build_held(self, found: Document) -> Document:
        spec: dict[str, Any] = found.get("spec") or {}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        is_new = spec.get("holderIdentity") != self._identity
        held = {
            **spec,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, math.ceil(self._terms.duration)),
            "renewTime": now,
        }
        if is_new:
            held["acquireTime"] = now
            held["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        return {**found, "spec": held}

    async def _give_back(self) -> None:
        if self._seen is None or self._is_anothers():
            return
        spec = {**self._seen["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            place = paths.build_path(paths.LEASES, self._key)
            await self._api.ask_unfenced(ApiRequest("PUT", place, {**self._seen, "spec": spec}))
        except EvenkeelError as error:
            log.warning("the lease %s cannot be released: %s", self._key, error)
