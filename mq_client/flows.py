"""
Conversations of several steps, written once for blocking and asyncio clients.

A flow is a generator. It yields what it wants done (`Ask`, `AskAll`, `Tell`, `Pause`), gets the
outcome as the value of the yield or as an exception, and returns its result. It never sleeps, reads
a clock or touches a socket, so a test plays the other side with a list of answers.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from mq_client import errors
from mq_client.commands.base import Request

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Ask:
    """Send a request and wait for the answer: its value, or a `MqError` raised."""

    address: str
    request: Request[Any]
    timeout: float


@dataclass(frozen=True, slots=True)
class AskAll:
    """Send requests side by side; a list of values comes back, and of errors, not raised."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a request that gets no answer."""

    address: str
    request: Request[Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """Let some seconds pass."""

    seconds: float


Step = Ask | AskAll | Tell | Pause
Flow = Generator[Step, Any, Value]


def ask(address: str, request: Request[Value], timeout: float) -> Flow[Value]:
    """Ask one thing, with its type."""
    answer: Value = yield Ask(address, request, timeout)
    return answer


def ask_all(
    addresses: dict[str, str], request: Request[Value], timeout: float
) -> Flow[dict[str, Value | errors.MqError]]:
    """Ask the same of several, by name."""
    asks = tuple(Ask(address, request, timeout) for address in addresses.values())
    outcomes = yield AskAll(asks)
    return dict(zip(addresses, outcomes, strict=True))


def joined(outcomes: list[Any]) -> list[Any] | Exception:
    """Tell what an `AskAll` gives: the list, or a failure in it that is no `MqError`, to raise."""
    for outcome in outcomes:
        if isinstance(outcome, Exception) and not isinstance(outcome, errors.MqError):
            return outcome
    return outcomes


def all_good(answers: dict[str, Value | errors.MqError]) -> list[Value]:
    """Take the answers of all who were asked; an error among them is raised."""
    for answer in answers.values():
        if isinstance(answer, errors.MqError):
            raise answer
    return [answer for answer in answers.values() if not isinstance(answer, errors.MqError)]


def failure(step: Ask | Tell, cause: errors.MqError) -> errors.MqError:
    """Make the error for what did not get through: it names the request and the peer."""
    what = f"{step.request.about()} to {step.address}"
    if isinstance(cause, errors.DeadlineError) and isinstance(step, Ask):
        return errors.DeadlineError(
            f"{what}: no answer within {step.timeout:g} s; is it overloaded, or out of reach?"
        )
    return errors.ConnectionLostError(f"{what}: {cause}; does it run, is the address right?")
