"""Finds in Spark's error text why a query failed, and whether a retry can help."""

import re
from dataclasses import dataclass
from enum import Enum

from contract.names import SKIP
from mq_client import errors

_RAISED = re.compile(r"^(?P<kind>[\w.]*\w(?:Error|Exception)): (?P<message>.*)$", re.MULTILINE)
_PASSING = (
    errors.UnavailableError, errors.BusyError, errors.PermError,
    # A restarted name server knows no topic until its brokers have registered again.
    errors.TopicUnknownError,
)  # fmt: skip
_LASTING = (
    errors.UsageError, errors.NotPermittedError, errors.SubscriptionError,
    errors.CorruptMessageError,
)  # fmt: skip
_LOSSES = {"DataLossError", "OffsetGoneError"}
_LASTING_NAMES = _LOSSES | {"UsersPartError"}
HOW_TO_SKIP = f"; to skip them once, give a new value to skip, or to the annotation {SKIP}"


class Cure(Enum):
    """What helps after a failure."""

    TIME = "time"
    """Another system is down: retry until it is up again."""
    RETRY = "retry"
    """A retry may help. Give up after a few retries."""
    USER = "user"
    """The user must change something."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a query failed, in one line for users, and what helps."""

    message: str
    cure: Cure
    is_in_batch: bool = False
    """Whether a batch failed, rather than its planning or Spark itself."""


def judge(text: str) -> Failure:
    """Find the cause: the error at the end of the first Python traceback, or the first line."""
    first, *more = text.split("Traceback (most recent call last):", 1)
    found = _RAISED.search(more[0]) if more else None
    if found is None:
        return Failure(first.strip().partition("\n")[0], Cure.RETRY)
    name = found["kind"].rpartition(".")[2]
    advice = HOW_TO_SKIP if name in _LOSSES else ""
    return Failure(f"{name}: {found['message']}{advice}", _find_cure(name))


def _find_cure(name: str) -> Cure:
    kind = getattr(errors, name, None)
    if kind is not None and issubclass(kind, _PASSING):
        return Cure.TIME
    if name in _LASTING_NAMES or (kind is not None and issubclass(kind, _LASTING)):
        return Cure.USER
    return Cure.RETRY
