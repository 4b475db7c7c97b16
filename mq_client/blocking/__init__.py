"""The client for programs without asyncio: `with Client("localhost:9876") as client`."""

from mq_client.blocking.client import Client

__all__ = ["Client"]
