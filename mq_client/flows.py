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


def no_answer(step: Ask | Tell, seconds: float) -> errors.DeadlineError:
    """Make the error for an answer that did not come."""
    return errors.DeadlineError(
        f"{step.request.about()} to {step.address}: no answer within {seconds:g} s; "
        "the peer may be overloaded or out of reach"
    )
