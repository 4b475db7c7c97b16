"""
What is listed and watched: one kind of objects in one namespace, or in all, each on its own.

One that cannot be listed stops no other. If a right is missing, what is known of its namespace may
be wrong, so nothing is decided there until it is listed again; an API server that is away makes
nobody blind, for what was heard last holds until it is back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel.cluster import paths
from evenkeel.cluster.api import ForbiddenError, GoneError
from evenkeel.cluster.shelf import Shelf
from evenkeel.errors import EvenkeelError
from evenkeel.objects import Key

STALE_SECONDS = 300.0
"""
A process whose newest lists are older than this is started anew.

Longer than API servers are away when they are upgraded: to start anew does not bring them back, and
who is started often waits longer each time.
"""
SICK_ROUNDS = 3
"""Comparisons one after the other in which a watch had missed something."""


@dataclass(frozen=True, slots=True)
class WatchedKind:
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


class Scope:
    """One kind in one namespace, or in all."""

    def __init__(self, kind: WatchedKind, namespace: str | None, now: float) -> None:
        """It was not listed yet."""
        self.kind = kind
        self.namespace = namespace if kind.is_namespaced else None
        self.is_listed = False
        """Whether it was, ever."""
        self.seen_at = now
        """When it was listed last, or this process began."""
        self.trouble = ""
        """Why it could not be listed the last time."""
        self.is_refused = False
        """Whether that is for a missing right."""
        self.rounds_missed = 0

    def __str__(self) -> str:
        """Name it in a sentence."""
        where = "" if self.namespace is None else f" of namespace {self.namespace}"
        return f"{self.kind.name}{where}"

    @property
    def path(self) -> str:
        """Find where it is listed."""
        return paths.listed(self.kind.resource, self.namespace)

    @property
    def may_be_left_out(self) -> bool:
        """Whether others can go on without it: it is one namespace, and may not be listed."""
        return self.is_refused and self.namespace is not None

    def uids(self) -> dict[Key, str]:
        """List the objects that are known in it, each with its uid."""
        known = self.kind.shelf.uids()
        if self.namespace is None:
            return known
        return {key: uid for key, uid in known.items() if key.namespace == self.namespace}

    def note_list(self, now: float) -> bool:
        """Note that it was listed; whether it could not be before."""
        is_back = bool(self.trouble)
        self.is_listed, self.seen_at = True, now
        self.trouble, self.is_refused = "", False
        return is_back

    def note_trouble(self, error: EvenkeelError) -> bool:
        """Note why it cannot be listed; whether that is news."""
        before = self.trouble
        self.trouble = str(error)
        if isinstance(error, GoneError):
            self.trouble += ": is the kind installed? kubectl apply -f crds/"
        self.is_refused = isinstance(error, ForbiddenError)
        return self.trouble != before


class Scopes:
    """All of them."""

    def __init__(
        self, kinds: Sequence[WatchedKind], namespaces: Sequence[str | None], now: float
    ) -> None:
        """Nothing was listed yet."""
        self.all = [
            Scope(kind, namespace, now)
            for kind in kinds
            for namespace in (namespaces if kind.is_namespaced else [None])
        ]

    def of(self, kind: WatchedKind) -> list[Scope]:
        """List those of a kind."""
        return [each for each in self.all if each.kind is kind]

    def unseen(self, namespace: str) -> str | None:
        """Say why what is in a namespace cannot be seen as a whole; None if it can."""
        for each in self.all:
            is_there = each.kind.is_namespaced and each.namespace in (namespace, None)
            if is_there and each.is_refused:
                return f"the operator may not list the {each}: {each.trouble}"
        return None

    def refused(self) -> dict[str, bool]:
        """Tell of each namespace whether rights are missing there; "" is the whole cluster."""
        found: dict[str, bool] = {}
        for each in self.all:
            name = each.namespace or ""
            found[name] = found.get(name, False) or each.is_refused
        return found

    def age(self, now: float) -> float:
        """Tell for how many seconds something was not listed; where it may not be, nobody waits."""
        return now - min(each.seen_at for each in self._expected())

    def why_not_ready(self) -> str:
        """Say what cannot be listed now; empty if all is well."""
        if not all(each.is_listed or each.may_be_left_out for each in self.all):
            return "not everything was listed yet"
        for each in self._expected():
            if each.trouble:
                return f"the {each} cannot be listed: {each.trouble}"
        return ""

    def why_sick(self, now: float) -> str:
        """Say why this process had better be started anew; empty if not."""
        for each in self.all:
            if each.rounds_missed >= SICK_ROUNDS:
                return f"the watch does not tell of changes of the {each}"
        age = self.age(now)
        return f"the last list is {age:.0f} s old" if age > STALE_SECONDS else ""

    def _expected(self) -> list[Scope]:
        """Leave those out that may not be listed, unless that is all."""
        return [each for each in self.all if not each.is_refused] or self.all
