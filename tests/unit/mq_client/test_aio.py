"""Calls of the asyncio client that share a connection."""

import asyncio

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
