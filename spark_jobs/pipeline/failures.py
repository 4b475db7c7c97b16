"""What made a query fail, found in Spark's words, and whether trying again helps."""

import re
from dataclasses import dataclass
from enum import Enum

from contract.names import SKIP
from mq_client import errors

_RAISED = re.compile(r"^(?P<kind>[\w.]*\w(?:Error|Exception)): (?P<message>.*)$", re.MULTILINE)
_PASSING = (
    errors.UnavailableError, errors.BusyError, errors.PermError,
    # A name server that was restarted knows no topic until its brokers have registered again.
    errors.TopicUnknownError,
)  # fmt: skip
_LASTING = (
    errors.UsageError, errors.NotPermittedError, errors.SubscriptionError,
    errors.CorruptMessageError,
)  # fmt: skip
_LOSSES = {"DataLossError", "OffsetGoneError"}
_LASTING_NAMES = _LOSSES | {"UsersPartError"}
HOW_TO_SKIP = f"; to pass over them once: a new value of skip, of the annotation {SKIP}"


class Cure(Enum):
    """What helps."""

    TIME = "time"
    """It is another one's trouble: try again for as long as it takes."""
    RETRY = "retry"
    """Perhaps a retry; not for ever."""
    USER = "user"
    """Somebody has to change something."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One line for people, and what helps."""

    message: str
    cure: Cure


def judge(text: str) -> Failure:
    """Find the cause: the last error of the first Python traceback, else the first line."""
    first, *more = text.split("Traceback (most recent call last):", 1)
    found = _RAISED.search(more[0]) if more else None
    if found is None:
        return Failure(first.strip().partition("\n")[0], Cure.RETRY)
    name = found["kind"].rpartition(".")[2]
    advice = HOW_TO_SKIP if name in _LOSSES else ""
    return Failure(f"{name}: {found['message']}{advice}", _cure(name))


def _cure(name: str) -> Cure:
    kind = getattr(errors, name, None)
    if kind is not None and issubclass(kind, _PASSING):
        return Cure.TIME
    if name in _LASTING_NAMES or (kind is not None and issubclass(kind, _LASTING)):
        return Cure.USER
    return Cure.RETRY
