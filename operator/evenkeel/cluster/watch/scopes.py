"""
Scopes of lists and watches: a scope is one kind of objects, in one namespace or in all.

A scope that cannot be listed does not affect the others. If a right is missing, the cache of the
namespace may be wrong, so nothing is decided there until the scope can be listed again. If the API
server does not answer, the cache is still used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_errors import ForbiddenError, NotFoundError
from evenkeel.cluster.watch.object_cache import ObjectCache
from evenkeel.errors import EvenkeelError
from evenkeel.objects import Key

STALE_SECONDS = 300.0
"""
A process whose lists are older than this is restarted.

This time is longer than the upgrade of an API server takes. During an upgrade, a restart would not
help, and the pauses between repeated restarts grow.
"""
SICK_ROUNDS = 3
"""If so many comparisons in a row find changes that were missed, the process is unhealthy."""


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """One kind of objects: its resource, its cache, and the function to call on a change."""

    resource: tuple[str, str, str]
    """Group, version, plural."""
    cache: ObjectCache[Any]
    changed: Callable[[Key], None]
    is_namespaced: bool = True
    label: str = ""
    """Only objects with this label are listed."""

    @property
    def name(self) -> str:
        """The plural name."""
        return self.resource[2]


class Scope:
    """One kind in one namespace, or in all."""

    def __init__(self, kind: WatchedKind, namespace: str | None, now: float) -> None:
        """Begin as not listed."""
        self.kind = kind
        self.namespace = namespace if kind.is_namespaced else None
        self.is_listed = False
        """Whether it was listed at least once."""
        self.seen_at = now
        """When it was last listed or, before the first list, when this process started."""
        self.trouble = ""
        """Why the last list failed; empty if it succeeded."""
        self.is_refused = False
        """Whether the list failed because a right is missing."""
        self.rounds_missed = 0

    def __str__(self) -> str:
        """Describe the scope for a message."""
        where = "" if self.namespace is None else f" of namespace {self.namespace}"
        return f"{self.kind.name}{where}"

    @property
    def path(self) -> str:
        """The path of its list."""
        return paths.build_list_path(self.kind.resource, self.namespace)

    @property
    def may_be_left_out(self) -> bool:
        """Whether other scopes are usable without this one, because its namespace lacks rights."""
        return self.is_refused and self.namespace is not None

    def list_uids(self) -> dict[Key, str]:
        """List the uids of its cached objects."""
        known = self.kind.cache.list_uids()
        if self.namespace is None:
            return known
        return {key: uid for key, uid in known.items() if key.namespace == self.namespace}

    def note_list(self, now: float) -> bool:
        """Note a successful list. Return whether the previous list had failed."""
        is_back = bool(self.trouble)
        self.is_listed, self.seen_at = True, now
        self.trouble, self.is_refused = "", False
        return is_back

    def note_error(self, error: EvenkeelError) -> bool:
        """Note a failed list. Return whether the reason is new."""
        before = self.trouble
        self.trouble = str(error)
        if isinstance(error, NotFoundError):
            self.trouble += ": is the kind installed? kubectl apply -f crds/"
        self.is_refused = isinstance(error, ForbiddenError)
        return self.trouble != before


class Scopes:
    """All scopes."""

    def __init__(
        self, kinds: Sequence[WatchedKind], namespaces: Sequence[str | None], now: float
    ) -> None:
        """Begin with no scope listed."""
        self.all = [
            Scope(kind, namespace, now)
            for kind in kinds
            for namespace in (namespaces if kind.is_namespaced else [None])
        ]

    def list_of_kind(self, kind: WatchedKind) -> list[Scope]:
        """List the scopes of a kind."""
        return [each for each in self.all if each.kind is kind]

    def explain_unseen(self, namespace: str) -> str | None:
        """Explain why a namespace cannot be observed completely; None if it can."""
        for each in self.all:
            is_there = each.kind.is_namespaced and each.namespace in (namespace, None)
            if is_there and each.is_refused:
                return f"the operator may not list the {each}: {each.trouble}"
        return None

    def list_refused(self) -> dict[str, bool]:
        """Return for each namespace whether rights are missing there; "" is the whole cluster."""
        found: dict[str, bool] = {}
        for each in self.all:
            name = each.namespace or ""
            found[name] = found.get(name, False) or each.is_refused
        return found

    def measure_age(self, now: float) -> float:
        """Return the largest age of a last list in seconds; forbidden scopes do not count."""
        return now - min(each.seen_at for each in self._list_expected())

    def explain_not_ready(self) -> str:
        """Explain which scopes cannot be listed now; empty if all can."""
        if not all(each.is_listed or each.may_be_left_out for each in self.all):
            return "some objects have not been listed yet"
        for each in self._list_expected():
            if each.trouble:
                return f"the {each} cannot be listed: {each.trouble}"
        return ""

    def explain_sick(self, now: float) -> str:
        """Explain why this process should be restarted; empty if it is healthy."""
        for each in self.all:
            if each.rounds_missed >= SICK_ROUNDS:
                return f"the watch does not report changes of the {each}"
        age = self.measure_age(now)
        return f"the last list is {age:.0f} s old" if age > STALE_SECONDS else ""

    def _list_expected(self) -> list[Scope]:
        """List the scopes that are not forbidden; all scopes if all are forbidden."""
        return [each for each in self.all if not each.is_refused] or self.all
