"""
Lists everything now and then, and compares with what was heard.

kopf does not tell of objects that went while a watch was down, and a watch can die unseen. So what
a list has and the watch has not told some seconds later is taken from the list, and counted: a
process whose watches miss something round after round calls itself sick, and is started anew.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenkeel.cluster import paths
from evenkeel.cluster.api import Api, GoneError
from evenkeel.cluster.lists import Item, Page
from evenkeel.cluster.shelf import Shelf
from evenkeel.errors import EvenkeelError
from evenkeel.objects import Head, Key, head

log = logging.getLogger("evenkeel")
Ask = Callable[[str, Mapping[str, str]], Awaitable[Page[Item]]]
ROUND_SECONDS = 60.0
LATE_SECONDS = 10.0
"""What the watch has not told by then it will not tell."""
A_PAGE = 500
SICK_ROUNDS = 3
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of objects: where they are, what was heard, and who is told of news."""

    resource: tuple[str, str, str]
    """Group, version, plural."""
    shelf: Shelf[Any]
    changed: Callable[[Key], None]
    is_namespaced: bool = True
    label: str = ""
    """Only objects that have it."""

    @property
    def name(self) -> str:
        """Say it in the plural."""
        return self.resource[2]

    def path(self, namespace: str | None) -> str:
        """Find where they are listed."""
        return paths.listed(self.resource, namespace if self.is_namespaced else None)


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

    def __init__(self, api: Api, kinds: Sequence[Kind], namespaces: Sequence[str | None]) -> None:
        """List nothing yet."""
        self._api = api
        self._kinds = kinds
        self._namespaces = namespaces
        self._rounds_missed = 0
        self._compared_at = time.monotonic()
        self.missed = 0
        """Changes that the watches have not told."""

    @property
    def age(self) -> float:
        """Tell how many seconds ago lists and watches were compared."""
        return time.monotonic() - self._compared_at

    @property
    def is_sick(self) -> bool:
        """Whether the watches have failed to tell again and again."""
        return self._rounds_missed >= SICK_ROUNDS

    async def begin(self) -> None:
        """List everything for the first time, however long it takes until that works."""
        pause = FIRST_PAUSE
        for kind in self._kinds:
            while True:
                try:
                    async for item in self._listed(kind, self._api.page):
                        if kind.shelf.take(item):
                            kind.changed(head(item["metadata"]).key)
                    break
                except EvenkeelError as error:
                    log.warning("%s; tried again in %g s", _explained(kind, error), pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def run(self) -> None:
        """Compare until cancelled."""
        while True:
            await asyncio.sleep(ROUND_SECONDS)
            try:
                missed = sum([await self.compare(kind) for kind in self._kinds])
            except EvenkeelError as error:
                log.warning("what is there cannot be listed: %s", error)
                continue
            self._compared_at = time.monotonic()
            self.missed += missed
            self._rounds_missed = self._rounds_missed + 1 if missed else 0

    async def compare(self, kind: Kind, late_seconds: float = LATE_SECONDS) -> int:
        """Compare once; how much the watch has missed."""
        first = _Suspects(kind.shelf.uids())
        first.gone = dict(first.known)
        async for bare in self._listed(kind, self._api.heads):
            found = bare.head
            first.gone.pop(found.key, None)
            if kind.shelf.is_behind(found):
                first.behind[found.key] = found
        if not first.behind and not first.gone:
            return 0
        await asyncio.sleep(late_seconds)
        missed = set()
        async for item in self._listed(kind, self._api.page):
            now = head(item["metadata"])
            first.gone.pop(now.key, None)
            if now.key not in first.behind or first.was_told_gone(kind.shelf, now.key):
                continue
            if first.is_missed(kind.shelf, now):
                missed.add(now.key)
            if kind.shelf.take(item):
                kind.changed(now.key)
        for key, uid in first.gone.items():
            if kind.shelf.uid(key) == uid:
                missed.add(key)
                kind.shelf.drop(key)
                kind.changed(key)
        for key in missed:
            log.warning("the watch has not told what became of %s %s", kind.name, key)
        return len(missed)

    async def _listed(self, kind: Kind, ask: Ask[Item]) -> AsyncIterator[Item]:
        for namespace in self._namespaces if kind.is_namespaced else [None]:
            query = {"limit": str(A_PAGE), **({"labelSelector": kind.label} if kind.label else {})}
            while True:
                page = await ask(kind.path(namespace), query)
                for item in page.items or ():
                    yield item
                if not page.metadata.more:
                    break
                query["continue"] = page.metadata.more


def _explained(kind: Kind, error: EvenkeelError) -> str:
    if isinstance(error, GoneError):
        return f"{error}: is the kind installed? kubectl apply -f crds/"
    return str(error)
