"""What the operator answers on its port."""

import asyncio
import socket

import pytest
from prometheus_client import CollectorRegistry

from evenkeel.cluster.serving import serving
from evenkeel.errors import EvenkeelError


def test_a_port_that_is_taken_is_one_sentence() -> None:
    async def body(port: int) -> None:
        async with serving(port, CollectorRegistry(), lambda: True, lambda: False):
            pytest.fail("two have the same port")

    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EvenkeelError, match=f"port {port} cannot be opened: .*--port"):
            asyncio.run(body(port))
