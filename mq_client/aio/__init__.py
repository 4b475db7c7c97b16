"""The client for asyncio: `async with Client("localhost:9876") as client`."""

from mq_client.aio.client import Client

__all__ = ["Client"]
