"""Who may ask: each request passes a door before anything else of it is read."""

import hmac
from http import HTTPStatus
from typing import Protocol

from contract.following import Denial
from evenkeel.objects import Key

STATUSES = {
    Denial.FORBIDDEN: HTTPStatus.FORBIDDEN,
    Denial.NOT_A_POD: HTTPStatus.FORBIDDEN,
    Denial.ANOTHER_NAMESPACE: HTTPStatus.FORBIDDEN,
    Denial.ANOTHER_POD: HTTPStatus.FORBIDDEN,
    Denial.NOT_SELECTED: HTTPStatus.FORBIDDEN,
    Denial.POD_UNSEEN: HTTPStatus.SERVICE_UNAVAILABLE,
    Denial.REVIEW_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Denial.NOT_LEADING: HTTPStatus.SERVICE_UNAVAILABLE,
    Denial.NO_SUCH_GROUP: HTTPStatus.NOT_FOUND,
    Denial.BAD_REQUEST: HTTPStatus.BAD_REQUEST,
    Denial.SLOW_BODY: HTTPStatus.REQUEST_TIMEOUT,
}


class DeniedError(Exception):
    """A request that does not reach the coordination."""

    def __init__(self, denial: Denial, message: str) -> None:
        """The message says what is wrong, and for whom."""
        super().__init__(message)
        self.denial = denial


class Door(Protocol):
    """Decides who may ask."""

    async def admit(self, token: str, key: Key, member: str) -> None:
        """Raise `DeniedError` unless who has this token may ask as this member of this group."""


class TokenDoor:
    """Admits everybody who knows one token, under any name: for a machine of one's own."""

    def __init__(self, token: str) -> None:
        """The token is that of a file."""
        self._token = token

    async def admit(self, token: str, key: Key, member: str) -> None:
        """Compare the token."""
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise DeniedError(Denial.FORBIDDEN, "the bearer token is not the right one")
