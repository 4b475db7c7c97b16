"""Sends numbered messages evenly to all queues, all the time."""

import asyncio
from contextlib import suppress
from typing import Self

from mq_client.aio import Client
from mq_client.errors import BusyError
from mq_client.messages import Message
from mq_client.operations.sending import RoundRobin

A_BATCH, BATCH_SECONDS = 20, 0.05
"""400 messages a second."""


class Sender:
    """Sends for as long as it is entered, unless it is stopped before."""

    def __init__(self, client: Client, topic: str) -> None:
        """Send nothing yet."""
        self.sent = 0
        self._client = client
        self._topic = topic
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Send the last batch; an error that ended the sending is raised now."""
        self._stop.set()
        if self._task is not None:
            await self._task

    async def __aenter__(self) -> Self:
        """Begin."""
        self._task = asyncio.create_task(self._send())
        return self

    async def __aexit__(self, *_: object) -> None:
        """End."""
        await self.stop()

    async def _send(self) -> None:
        chooser = RoundRobin()
        while not self._stop.is_set():
            batch = [Message(self._topic, b"%d" % (self.sent + each)) for each in range(A_BATCH)]
            # Only what was refused is sent again: what a broker fell silent about may be stored,
            # and stored twice it would look as if it had been consumed twice.
            with suppress(BusyError):
                await self._client.send(batch, chooser, tries=1)
                self.sent += A_BATCH
            await asyncio.sleep(BATCH_SECONDS)
