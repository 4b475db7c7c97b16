"""Finds out why a batch failed, and whether a retry can help."""

import re
from dataclasses import dataclass
from enum import Enum

from contract.names import SKIP
from mq_client import errors

_RAISED = re.compile(r"^(?P<kind>[\w.]*\w(?:Error|Exception)): (?P<message>.*)$", re.MULTILINE)
_PASSING = (
    *errors.MAY_PASS, errors.PermError,
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


class UsersPartError(Exception):
    """The user's code is wrong: a retry does not help."""


class FilesMissingError(Exception):
    """The driver does not see files that executors wrote. A retry does not help."""


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
    """Why a batch failed, in one line for users, and what helps."""

    message: str
    cure: Cure
    is_in_batch: bool = False
    """Whether a batch failed while it ran, rather than its planning."""


def judge(text: str) -> Failure:
    """
    Find the cause in an error text of Spark.

    It is the error that ends the first Python traceback, otherwise the first line that has a cause.
    """
    first, *more = text.split("Traceback (most recent call last):", 1)
    found = _RAISED.search(more[0]) if more else None
    if found is None:
        line, _, rest = first.strip().partition("\n")
        # Py4J writes only the name of its call into the first line.
        cause = rest.partition("\n")[0].removeprefix(": ") if rest.startswith(": ") else line
        return Failure(cause, Cure.RETRY)
    return _judge(found["kind"].rpartition(".")[2], found["message"])


def judge_error(error: BaseException) -> Failure:
    """Find the cause of an error that was raised in this process."""
    if isinstance(error, (UsersPartError, FilesMissingError)):
        return Failure(str(error), Cure.USER)
    name = type(error).__name__
    return (
        _judge(name, str(error)) if isinstance(error, errors.MqError) else judge(f"{name}: {error}")
    )


def _judge(name: str, message: str) -> Failure:
    advice = HOW_TO_SKIP if name in _LOSSES else ""
    return Failure(f"{name}: {message}{advice}", _find_cure(name))


def _find_cure(name: str) -> Cure:
    kind = getattr(errors, name, None)
    if kind is not None and issubclass(kind, _PASSING):
        return Cure.TIME
    if name in _LASTING_NAMES or (kind is not None and issubclass(kind, _LASTING)):
        return Cure.USER
    return Cure.RETRY
