"""Provides a peer on loopback, whose answers a test chooses, and a client for it."""

from collections.abc import Iterator

import pytest

from mq_client.blocking import Client
from tests.peer import Peer


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as running:
        yield running


@pytest.fixture
def client(peer: Peer) -> Iterator[Client]:
    with Client(peer.address) as opened:
        yield opened
