"""
Lists everything now and then, and compares with what was heard.

kopf does not tell of objects that went while a watch was down, and a watch can die unseen. So what
a list has and the watch has not told some seconds later is taken from the list, and counted: a
process whose watches miss something round after round calls itself sick, and is started anew.

In between it glances: it lists a single object, to know whether lists work. One that does not is
tried again soon, and each kind in each namespace is listed on its own, so none waits for another.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenkeel.cluster.api import Api
from evenkeel.cluster.lists import Item, Page
from evenkeel.cluster.scopes import Scope, Scopes, WatchedKind
from evenkeel.cluster.shelf import Shelf
from evenkeel.errors import EvenkeelError
from evenkeel.objects import Head, Key, head

log = logging.getLogger("evenkeel")
Ask = Callable[[str, Mapping[str, str]], Awaitable[Page[Item]]]
A_PAGE = 500
FIRST_AT_ONCE = 4
"""Lists of whole objects side by side, for they take memory."""


@dataclass(frozen=True, slots=True)
class ResyncPace:
    """How often is listed."""

    compare: float = 60.0
    glance: float = 20.0
    again: float = 5.0
    """What could not be listed."""
    first_again: float = 1.0
    """The same, the first time."""
    late: float = 10.0
    """What the watch has not told by then it will not tell."""


@dataclass(slots=True)
class _Suspects:
    """What a list and the watch do not agree on."""

    known: dict[Key, str]
    """The uids of what the watch had told of before the list."""
    behind: dict[Key, Head] = field(default_factory=dict)
    """What the list has and the watch has not told yet."""
    gone: dict[Key, str] = field(default_factory=dict)
    """The uids of what the list has no more."""

    def is_missed(self, shelf: Shelf[Any], now: Head) -> bool:
        """
        Whether the watch has not told by now of what the first list had.

        It may well not have told of what has changed since: many objects change all the time.
        """
        before = self.behind[now.key]
        return before.uid == now.uid and shelf.is_behind(before)

    def was_told_gone(self, shelf: Shelf[Any], key: Key) -> bool:
        """Whether the watch has told of the end of it since the first list."""
        return key in self.known and shelf.uid(key) is None


class Resync:
    """Compares for ever."""

    def __init__(
        self,
        api: Api,
        kinds: Sequence[WatchedKind],
        namespaces: Sequence[str | None],
        pace: ResyncPace | None = None,
    ) -> None:
        """List nothing yet."""
        self._api = api
        self._pace = pace or ResyncPace()
        self._alarm = asyncio.Event()
        self.scopes = Scopes(kinds, namespaces, time.monotonic())
        self.missed = 0
        """Changes that the watches have not told."""

    @property
    def age(self) -> float:
        """Tell for how many seconds something was not listed."""
        return self.scopes.age(time.monotonic())

    @property
    def why_sick(self) -> str:
        """Say why this process had better be started anew; empty if not."""
        return self.scopes.why_sick(time.monotonic())

    def look_now(self) -> None:
        """Glance at once, as somebody else was not answered."""
        self._alarm.set()

    async def begin(self) -> None:
        """
        List everything for the first time, however long it takes until that works.

        A namespace without rights is left out as yet. What is in none is waited for: where zones
        are unknown, queues would move.
        """
        room = asyncio.Semaphore(FIRST_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for scope in self.scopes.all:
                tasks.create_task(self._begin(scope, room))

    async def run(self) -> None:
        """Compare until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for scope in self.scopes.all:
                tasks.create_task(self._follow(scope))

    async def compare(self, kind: WatchedKind) -> int:
        """Compare once; how much the watch has missed."""
        return sum([await self._compare(each) for each in self.scopes.of(kind)])

    async def _begin(self, scope: Scope, room: asyncio.Semaphore) -> None:
        pause = self._pace.first_again
        while True:
            async with room:
                if await self._worked(scope, self._take_all(scope)):
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
                await self._worked(scope, self._take_all(scope))
            elif not await self._worked(scope, self._glance(scope)):
                due = 0.0  # as soon as that works, to see what was missed
            elif time.monotonic() >= due and await self._worked(scope, self._round(scope)):
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
        self._alarm.clear()  # all who waited are awake

    async def _worked(self, scope: Scope, work: Awaitable[None]) -> bool:
        """Do what lists something; whether it could be listed."""
        try:
            await work
        except EvenkeelError as error:
            if scope.note_trouble(error):
                log.warning("the %s cannot be listed, it is tried again: %s", scope, scope.trouble)
                self._tell_all(scope)
            return False
        if scope.note_list(time.monotonic()):
            log.info("the %s can be listed again", scope)
            self._tell_all(scope)
        return True

    def _tell_all(self, scope: Scope) -> None:
        """Have everything looked at that rests on what can be seen, or cannot."""
        for key in scope.uids():
            scope.kind.changed(key)

    async def _take_all(self, scope: Scope) -> None:
        async for item in self._listed(scope, self._api.page):
            if scope.kind.shelf.take(item):
                scope.kind.changed(head(item["metadata"]).key)

    async def _glance(self, scope: Scope) -> None:
        await self._api.heads(scope.path, {**_query(scope), "limit": "1"})

    async def _round(self, scope: Scope) -> None:
        missed = await self._compare(scope)
        self.missed += missed
        scope.rounds_missed = scope.rounds_missed + 1 if missed else 0

    async def _compare(self, scope: Scope) -> int:
        kind, shelf = scope.kind, scope.kind.shelf
        first = _Suspects(scope.uids())
        first.gone = dict(first.known)
        async for bare in self._listed(scope, self._api.heads):
            found = bare.head
            first.gone.pop(found.key, None)
            if shelf.is_behind(found):
                first.behind[found.key] = found
        if not first.behind and not first.gone:
            return 0
        await asyncio.sleep(self._pace.late)
        missed = set()
        async for item in self._listed(scope, self._api.page):
            now = head(item["metadata"])
            first.gone.pop(now.key, None)
            if now.key not in first.behind or first.was_told_gone(shelf, now.key):
                continue
            if first.is_missed(shelf, now):
                missed.add(now.key)
            if shelf.take(item):
                kind.changed(now.key)
        for key, uid in first.gone.items():
            if shelf.uid(key) == uid:
                missed.add(key)
                shelf.drop(key)
                kind.changed(key)
        for key in missed:
            log.warning("the watch has not told what became of %s %s", kind.name, key)
        return len(missed)

    async def _listed(self, scope: Scope, ask: Ask[Item]) -> AsyncIterator[Item]:
        query = _query(scope)
        while True:
            page = await ask(scope.path, query)
            for item in page.items or ():
                yield item
            if not page.metadata.more:
                break
            query["continue"] = page.metadata.more


def _query(scope: Scope) -> dict[str, str]:
    label = {"labelSelector": scope.kind.label} if scope.kind.label else {}
    return {"limit": str(A_PAGE), **label}
