"""
Flows are operations of several steps, which the blocking and the asyncio client share.

A flow is a generator. It yields steps (`Ask`, `AskAll`, `Tell`, `Pause`), receives each outcome as
the value of the yield or as an exception, and returns its result. It never sleeps, reads a clock or
uses a socket, so a test needs only a list of answers instead of peers.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from mq_client import errors
from mq_client.commands.base import Request

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Ask:
    """Send a request. The outcome is the value of its answer, or a raised `MqError`."""

    address: str
    request: Request[Any]
    timeout: float


@dataclass(frozen=True, slots=True)
class AskAll:
    """Send several requests concurrently. The outcome is a list of values and errors."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a request that gets no answer."""

    address: str
    request: Request[Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait some seconds."""

    seconds: float


Step = Ask | AskAll | Tell | Pause
Flow = Generator[Step, Any, Value]


def ask(address: str, request: Request[Value], timeout: float) -> Flow[Value]:
    """Send a request, and return its typed answer."""
    answer: Value = yield Ask(address, request, timeout)
    return answer


def ask_all(
    addresses: dict[str, str], request: Request[Value], timeout: float
) -> Flow[dict[str, Value | errors.MqError]]:
    """Send a request to several addresses. Return answers and errors by name."""
    asks = tuple(Ask(address, request, timeout) for address in addresses.values())
    outcomes = yield AskAll(asks)
    return dict(zip(addresses, outcomes, strict=True))


def check_outcomes(outcomes: list[Any]) -> list[Any] | Exception:
    """Return the outcome of an `AskAll`: the list, or the first error that is not an `MqError`."""
    for outcome in outcomes:
        if isinstance(outcome, Exception) and not isinstance(outcome, errors.MqError):
            return outcome
    return outcomes


def require_all(answers: dict[str, Value | errors.MqError]) -> list[Value]:
    """Return all answers, or raise the first error among them."""
    for answer in answers.values():
        if isinstance(answer, errors.MqError):
            raise answer
    return [answer for answer in answers.values() if not isinstance(answer, errors.MqError)]


def make_failure(step: Ask | Tell, cause: errors.MqError) -> errors.MqError:
    """Make the error for a request that failed. It names the request and the peer."""
    what = f"{step.request.describe()} to {step.address}"
    if isinstance(cause, errors.DeadlineError) and isinstance(step, Ask):
        return errors.DeadlineError(
            f"{what}: no answer within {step.timeout:g} s; is the peer overloaded or unreachable?"
        )
    return errors.ConnectionLostError(
        f"{what}: {cause}; does the peer run, and is the address right?"
    )
