"""What the operator makes of name servers that take a connection and say nothing."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from evenkeel.control import brokers
from evenkeel.control.brokers import Brokers, Cluster
from evenkeel.control.draining import Quiet
from evenkeel.control.provision import Counts
from evenkeel.control.provisioning import Task
from evenkeel.control.topics import Unread


@pytest.fixture
def silent() -> Iterator[Cluster]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Cluster((f"127.0.0.1:{server.getsockname()[1]}",))


@pytest.mark.parametrize("what", ["route", "provision"])
def test_nobody_waits_for_ever_for_who_does_not_answer(
    what: str, silent: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client alone would try again and again."""
    monkeypatch.setattr(brokers, "ANSWER_SECONDS", 0.05)

    async def asked() -> object:
        found = Brokers()
        try:
            if what == "route":
                return await found.route(silent, "orders")
            task = Task("orders", Counts(4, 4, 6), list, Quiet())
            return await found.provision(silent, task)
        finally:
            await found.close()

    answer = asyncio.run(asked())
    assert isinstance(answer, Unread)
    assert "answered for 0.05 s" in answer.message
