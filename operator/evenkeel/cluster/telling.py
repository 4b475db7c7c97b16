"""
Tells people what has happened, as Events of Kubernetes, one after the other.

A status says the same and matters more, so nothing waits for an Event; one that cannot be made is
no failure.
"""

import asyncio
import contextlib
import logging
import time
from dataclasses import replace

from evenkeel.cluster import paths
from evenkeel.cluster.api import Api, ApiRequest
from evenkeel.cluster.brake import Brake
from evenkeel.cluster.events import event
from evenkeel.control.groups.group_status import Happened
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup

log = logging.getLogger("evenkeel")
MOST_WAITING = 2000
LAST_SECONDS = 2.0
"""For what still waits at the end."""


class Telling:
    """Makes Events while it runs."""

    def __init__(self, api: Api) -> None:
        """Tell nothing yet."""
        self._api = api
        self._waiting: asyncio.Queue[tuple[ConsumerGroup, Happened]] = asyncio.Queue(MOST_WAITING)
        self._task: asyncio.Task[None] | None = None
        self._brake = Brake()

    def tell(self, group: ConsumerGroup, what: Happened) -> None:
        """Have it told soon, unless the same was told of it too often."""
        held = self._brake.let_through((group.head.uid, what.reason), time.monotonic())
        if held is None:
            return
        if held:
            text = f"{what.message} ({held} more of this reason were held back)"
            what = replace(what, message=text)
        try:
            self._waiting.put_nowait((group, what))
        except asyncio.QueueFull:
            log.warning("%s: no Event, for too many wait: %s", group, what.message)

    def begin(self) -> None:
        """Tell from now on."""
        self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        """Tell what waits, unless that takes long, and nothing more."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await self._waiting.join()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            group, what = await self._waiting.get()
            place = paths.listed(paths.EVENTS, group.head.key.namespace)
            try:
                await self._api.ask_unfenced(ApiRequest("POST", place, event(group, what)))
            except EvenkeelError as error:
                log.warning("%s: no Event: %s", group, error)
            self._waiting.task_done()
