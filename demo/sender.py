"""Sends numbered messages continuously, in equal numbers to all queues."""

import asyncio
from contextlib import suppress
from typing import Self

from mq_client.aio import Client
from mq_client.choosers import RoundRobin
from mq_client.errors import BusyError
from mq_client.messages import Message

A_BATCH, BATCH_SECONDS = 20, 0.05
"""A batch of 20 messages every 0.05 s, so at most 400 messages a second."""


class Sender:
    """Sends until its `async with` block ends or `stop` is called."""

    def __init__(self, client: Client, topic: str) -> None:
        """Prepare a sender without sending."""
        self.sent = 0
        self._client = client
        self._topic = topic
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Finish the last batch; raise the error if sending has failed."""
        self._stop.set()
        if self._task is not None:
            await self._task

    def refuse_if_failed(self) -> None:
        """Raise the error if sending has failed: nothing more will arrive."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def __aenter__(self) -> Self:
        """Start sending."""
        self._task = asyncio.create_task(self._send())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop sending."""
        await self.stop()

    async def _send(self) -> None:
        chooser = RoundRobin()
        while not self._stop.is_set():
            batch = [Message(self._topic, b"%d" % (self.sent + each)) for each in range(A_BATCH)]
            # Only rejected batches are sent again. A batch without an answer may be stored, and a
            # second copy would look as if it had been consumed twice.
            with suppress(BusyError):
                await self._client.send(batch, chooser, tries=1)
                self.sent += A_BATCH
            await asyncio.sleep(BATCH_SECONDS)
