"""Calls of the asyncio client that share a connection."""

import asyncio
import itertools

import pytest

from mq_client import errors
from mq_client.aio import Client


def test_calls_that_begin_while_a_connection_opens_share_it() -> None:
    """Also a call that begins after it has opened, and before the first call has used it."""

    async def story() -> None:
        opened: list[asyncio.StreamWriter] = []

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            opened.append(writer)
            await reader.read()

        async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with Client([f"127.0.0.1:{port}"]) as client:
                calls: list[asyncio.Task[list[str]]] = []
                while len(calls) < 50 or not opened:
                    calls.append(asyncio.create_task(client.list_topics()))
                    await asyncio.sleep(0)
                assert not any(call.done() for call in calls)
                assert len(opened) == 1
                for call in calls:
                    call.cancel()
                await asyncio.gather(*calls, return_exceptions=True)
                opened[0].close()

    asyncio.run(story())


def test_after_a_reconnect_calls_in_flight_fail_and_later_ones_open_a_connection() -> None:
    async def story() -> None:
        asked: asyncio.Queue[int] = asyncio.Queue()
        """The connection of each request, by its number."""
        numbers = itertools.count()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            number = next(numbers)
            while await reader.read(1 << 16):
                asked.put_nowait(number)
            writer.close()

        async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with Client([f"127.0.0.1:{port}"]) as client:
                client.reconnect()  # nothing is open yet
                first = asyncio.create_task(client.list_topics())
                assert await asked.get() == 0
                client.reconnect()
                with pytest.raises(errors.NoNameServerError, match="gave the connection up"):
                    await first
                second = asyncio.create_task(client.list_topics())
                assert await asked.get() == 1
                second.cancel()
                await asyncio.gather(second, return_exceptions=True)

    asyncio.run(story())
