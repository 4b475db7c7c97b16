"""Sends one request over a new connection; `MqError` if the server does not answer."""

from typing import TypeVar

from mq_client import acl, blocking, flows
from mq_client.commands.base import Request

Value = TypeVar("Value")
ANSWER_SECONDS = 5.0


def ask(address: str, request: Request[Value], credentials: acl.Credentials | None = None) -> Value:
    """Send the request, and return the value of the answer."""
    with blocking.Client(address, credentials=credentials) as client:
        return client.engine.run(flows.ask(address, request, ANSWER_SECONDS))
