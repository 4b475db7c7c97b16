"""The interface through which a follower asks its coordinator, over any transport."""

from typing import Protocol

from contract.following import Asked, MemberAnswer, MemberRefusal
from mq_client.values import MessageQueue


class NoAnswerError(Exception):
    """The coordinator cannot be reached, or the answer is not from a coordinator."""


class RefusedError(Exception):
    """The coordinator refuses a request."""

    def __init__(self, status: int, refusal: MemberRefusal) -> None:
        """Take the reason and the message from the refusal."""
        super().__init__(f"{refusal.message} ({refusal.reason})")
        self.status = status
        self.reason = refusal.reason


class Asks(Protocol):
    """Sends requests to the coordinator."""

    url: str
    group: str
    member: str

    async def ask(
        self, asked: Asked[MessageQueue], wait_seconds: float, seconds: float, *, pops: bool = False
    ) -> MemberAnswer:
        """
        Send a request, and wait at most `seconds` for its answer.

        `pops`: whether the member pops messages, or still has some.
        """

    async def leave(self, session: str) -> None:
        """End the session."""
