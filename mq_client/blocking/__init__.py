"""The client for programs with threads or without: `with Client("localhost:9876") as client`."""

from mq_client.blocking.client import Client

__all__ = ["Client"]
