"""Decides which clients may send requests. A door checks each request before its body is read."""

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
    """A request does not reach the group's coordinator. `denial` is the reason."""

    def __init__(self, denial: Denial, message: str) -> None:
        """Store the reason, and a message that says what is wrong and for whom."""
        super().__init__(message)
        self.denial = denial


class Door(Protocol):
    """Decides which clients may send requests."""

    async def admit(self, token: str, key: Key, member: str) -> None:
        """Raise `DeniedError` unless a client with this token may act as this group member."""


class TokenDoor:
    """Admits every client that knows one token, under any name. For use on a user's own machine."""

    def __init__(self, token: str) -> None:
        """Store the token, which comes from a file."""
        self._token = token

    async def admit(self, token: str, key: Key, member: str) -> None:
        """Raise `DeniedError` unless the tokens are equal."""
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise DeniedError(Denial.FORBIDDEN, "the bearer token is not the right one")
