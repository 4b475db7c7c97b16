"""
Lists all objects regularly, and compares the lists with the cache.

kopf does not report objects that were deleted while a watch was down, and a watch can fail
silently. So if a list shows a change and the watch does not report it within some seconds, the
change is taken from the list and counted as missed. If watches miss changes round after round, the
process reports that it is unhealthy, and is restarted.

Between these comparisons, single objects are listed to check whether lists work. A failed list is
retried soon. Each kind in each namespace is listed separately, so a slow list delays no other.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel.cluster.api.api_client import Api
from evenkeel.cluster.api.lists import Item, Page
from evenkeel.cluster.watch.object_cache import ObjectCache
from evenkeel.cluster.watch.scopes import Scope, Scopes, WatchedKind
from evenkeel.errors import EvenkeelError
from evenkeel.objects import Head, Key, read_head

log = logging.getLogger("evenkeel")
Ask = Callable[[str, Mapping[str, str]], Awaitable[Page[Item]]]
A_PAGE = 500
FIRST_AT_ONCE = 4
"""Maximum number of parallel lists of whole objects, to limit the memory."""


@dataclass(frozen=True, slots=True)
class ResyncPace:
    """Intervals between lists, in seconds."""

    compare: float = 60.0
    glance: float = 20.0
    again: float = 5.0
    """Pause before a failed list is retried."""
    first_again: float = 1.0
    """Pause before a failed first list is retried."""
    late: float = 10.0
    """If the watch has not reported a listed change after this time, the change was missed."""


@dataclass(frozen=True, slots=True)
class _Suspect:
    """An object for which list and watch differ."""

    known_uid: str | None
    """The uid that the watch had reported before the list; None if it had reported none."""
    listed: Head | None
    """The listed version, which is newer than the watch's; None if the object is not listed."""

    def is_missed(self, cache: ObjectCache[Any], now: Head) -> bool:
        """
        Whether the watch has still not reported the version that the first list had.

        Later changes do not count, because many objects change all the time.
        """
        before = self.listed
        return before is not None and before.uid == now.uid and cache.is_behind(before)

    def was_reported_gone(self, cache: ObjectCache[Any], key: Key) -> bool:
        """Whether the watch has reported the deletion of the object since the first list."""
        return self.known_uid is not None and cache.find_uid(key) is None


class Resync:
    """Compares lists with the cache until cancelled."""

    def __init__(
        self,
        api: Api,
        kinds: Sequence[WatchedKind],
        namespaces: Sequence[str | None],
        pace: ResyncPace | None = None,
    ) -> None:
        """Prepare the lists without starting them."""
        self._api = api
        self._pace = pace or ResyncPace()
        self._alarm = asyncio.Event()
        self.scopes = Scopes(kinds, namespaces, time.monotonic())
        self.missed = 0
        """Changes that the watches have missed."""

    @property
    def age(self) -> float:
        """The largest age of a scope's last successful list, in seconds."""
        return self.scopes.measure_age(time.monotonic())

    @property
    def why_sick(self) -> str:
        """Why this process should be restarted; empty if it is healthy."""
        return self.scopes.explain_sick(time.monotonic())

    def look_now(self) -> None:
        """Check immediately whether lists work, because another request was not answered."""
        self._alarm.set()

    async def begin(self) -> None:
        """
        List everything for the first time, and retry until it succeeds.

        A namespace without rights is left out for now. Cluster-wide kinds must be listed: without
        the zones of nodes, queues would move.
        """
        room = asyncio.Semaphore(FIRST_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for scope in self.scopes.all:
                tasks.create_task(self._list_first(scope, room))

    async def run(self) -> None:
        """Compare until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for scope in self.scopes.all:
                tasks.create_task(self._follow(scope))

    async def compare(self, kind: WatchedKind) -> int:
        """Compare once. Return how many changes the watch has missed."""
        return sum([await self._compare(each) for each in self.scopes.list_of_kind(kind)])

    async def _list_first(self, scope: Scope, room: asyncio.Semaphore) -> None:
        pause = self._pace.first_again
        while True:
            async with room:
                if await self._try_to_list(scope, self._take_all(scope)):
                    return
            if scope.may_be_left_out:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._pace.again)

    async def _follow(self, scope: Scope) -> None:
        due = time.monotonic() + self._pace.compare * random.uniform(0.5, 1)  # noqa: S311 no secret
        while True:
            await self._rest(scope)
            if not scope.is_listed:
                await self._try_to_list(scope, self._take_all(scope))
            elif not await self._try_to_list(scope, self._glance(scope)):
                due = 0.0  # compare as soon as lists work again
            elif time.monotonic() >= due and await self._try_to_list(scope, self._round(scope)):
                due = time.monotonic() + self._pace.compare

    async def _rest(self, scope: Scope) -> None:
        if scope.trouble:
            await asyncio.sleep(self._pace.again)
            return
        seconds = self._pace.glance * random.uniform(0.8, 1)  # noqa: S311 no secret
        try:
            async with asyncio.timeout(seconds):
                await self._alarm.wait()
        except TimeoutError:
            return
        self._alarm.clear()  # all waiting tasks are awake

    async def _try_to_list(self, scope: Scope, work: Awaitable[None]) -> bool:
        """Run a list. Return whether it succeeded."""
        try:
            await work
        except EvenkeelError as error:
            if scope.note_error(error):
                log.warning(
                    "the %s cannot be listed; the list is retried: %s", scope, scope.trouble
                )
                self._tell_all(scope)
            return False
        if scope.note_list(time.monotonic()):
            log.info("the %s can be listed again", scope)
            self._tell_all(scope)
        return True

    def _tell_all(self, scope: Scope) -> None:
        """Reconcile everything that depends on this scope."""
        for key in scope.list_uids():
            scope.kind.changed(key)

    async def _take_all(self, scope: Scope) -> None:
        async for item in self._list(scope, self._api.get_page):
            if scope.kind.cache.take(item):
                scope.kind.changed(read_head(item["metadata"]).key)

    async def _glance(self, scope: Scope) -> None:
        await self._api.get_heads(scope.path, {**_build_query(scope), "limit": "1"})

    async def _round(self, scope: Scope) -> None:
        missed = await self._compare(scope)
        self.missed += missed
        scope.rounds_missed = scope.rounds_missed + 1 if missed else 0

    async def _compare(self, scope: Scope) -> int:
        suspects = await self._find_suspects(scope)
        if not suspects:
            return 0
        await asyncio.sleep(self._pace.late)
        kind, cache = scope.kind, scope.kind.cache
        missed = set()
        async for item in self._list(scope, self._api.get_page):
            now = read_head(item["metadata"])
            suspect = suspects.pop(now.key, None)
            if suspect is None or suspect.listed is None:
                continue
            if suspect.was_reported_gone(cache, now.key):
                continue
            if suspect.is_missed(cache, now):
                missed.add(now.key)
            if cache.take(item):
                kind.changed(now.key)
        for key, suspect in suspects.items():
            if suspect.listed is None and cache.find_uid(key) == suspect.known_uid:
                missed.add(key)
                cache.drop(key)
                kind.changed(key)
        for key in missed:
            log.warning("the watch has missed a change of %s %s", kind.name, key)
        return len(missed)

    async def _find_suspects(self, scope: Scope) -> dict[Key, _Suspect]:
        """List the scope, and find objects for which list and watch differ."""
        known = scope.list_uids()
        gone = dict(known)
        suspects = {}
        async for bare in self._list(scope, self._api.get_heads):
            found = bare.head
            gone.pop(found.key, None)
            if scope.kind.cache.is_behind(found):
                suspects[found.key] = _Suspect(known.get(found.key), found)
        return suspects | {key: _Suspect(uid, None) for key, uid in gone.items()}

    async def _list(self, scope: Scope, ask: Ask[Item]) -> AsyncIterator[Item]:
        query = _build_query(scope)
        while True:
            page = await ask(scope.path, query)
            for item in page.items or ():
                yield item
            if not page.metadata.more:
                break
            query["continue"] = page.metadata.more


def _build_query(scope: Scope) -> dict[str, str]:
    label = {"labelSelector": scope.kind.label} if scope.kind.label else {}
    return {"limit": str(A_PAGE), **label}
