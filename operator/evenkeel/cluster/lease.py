"""
Who leads: a Lease, as Kubernetes' own controllers use it.

The client library's own election is not used: it goes by the wall clock, which may jump, gives up
at the first connection that breaks, has no limit on a request that hangs, and does not give the
lease back. Time here is what this process has measured since it saw the lease change.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from evenkeel.cluster import fence, paths
from evenkeel.cluster.api import Api, ApiRequest, ConflictError, Document, GoneError
from evenkeel.cluster.fence import Fence
from evenkeel.cluster.terms import LeaderTerms
from evenkeel.errors import EvenkeelError
from evenkeel.objects import Key

log = logging.getLogger("evenkeel")


class LeaderLease:
    """One candidate."""

    def __init__(self, api: Api, key: Key, identity: str, terms: LeaderTerms, own: Fence) -> None:
        """Ask for nothing yet. Its own fence is open while this candidate leads."""
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
        """Is told when nobody answers."""

    async def keep(
        self, begin: Callable[[], Awaitable[None]], end: Callable[[], Awaitable[None]]
    ) -> None:
        """Lead whenever that is possible, until cancelled; then give the lease back."""
        try:
            while True:
                renewed = fence.now()
                if await self._tried():
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
        while fence.now() - renewed < self._terms.deadline:
            await asyncio.sleep(self._terms.period)
            now = fence.now()
            try:
                async with asyncio.timeout(self._terms.deadline - (now - renewed)):
                    if await self._tried():
                        renewed = now
                        self._open_fence(renewed)
                    elif self._is_anothers():
                        break
            except (TimeoutError, ValueError):
                break
        log.warning("%s leads no more", self._identity)
        self._fence.close()
        await self._stop(end)

    def _open_fence(self, renewed: float) -> None:
        self._fence.open(renewed + self._terms.deadline, renewed + self._terms.duration)

    async def _stop(self, end: Callable[[], Awaitable[None]]) -> None:
        """Let what has begun end, as far as that is in time, and begin nothing more."""
        self.is_leading = False
        await end()
        self._fence.close()

    async def _tried(self) -> bool:
        """Take or renew the lease, if it is free or ours."""
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
        path = paths.one(paths.LEASES, self._key)
        try:
            found = await self._api.get(path)
        except GoneError:
            await self._made()
            return True
        if self._seen is None or found["spec"] != self._seen["spec"]:
            self._seen, self._seen_at = found, fence.now()
        if self._is_anothers() and not self._is_over(found):
            return False
        try:
            self._seen = await self._api.ask_unfenced(ApiRequest("PUT", path, self._held(found)))
        except ConflictError:
            return False
        self._seen_at = fence.now()
        return True

    def _is_anothers(self) -> bool:
        holder = (self._seen or {}).get("spec", {}).get("holderIdentity")
        return bool(holder) and holder != self._identity

    def _is_over(self, found: Document) -> bool:
        seconds = found["spec"].get("leaseDurationSeconds") or self._terms.duration
        return fence.now() - self._seen_at > seconds

    async def _made(self) -> None:
        document = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._key.name, "namespace": self._key.namespace},
            "spec": {},
        }
        place = paths.listed(paths.LEASES, self._key.namespace)
        self._seen = await self._api.ask_unfenced(ApiRequest("POST", place, self._held(document)))
        self._seen_at = fence.now()

    def _held(self, found: Document) -> Document:
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
            place = paths.one(paths.LEASES, self._key)
            await self._api.ask_unfenced(ApiRequest("PUT", place, {**self._seen, "spec": spec}))
        except EvenkeelError as error:
            log.warning("the lease %s is not given back: %s", self._key, error)
