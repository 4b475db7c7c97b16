"""
Writes Events of Kubernetes in the background, one by one.

The status contains the same information and is more important. So no work waits for an Event, and
an Event that cannot be written is only logged.
"""

import asyncio
import contextlib
import logging
import time
from dataclasses import replace

from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_client import Api, ApiRequest
from evenkeel.cluster.events.event_documents import build_event
from evenkeel.cluster.rate_limiter import RateLimiter
from evenkeel.control.groups.group_status import Notice
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup

log = logging.getLogger("evenkeel")
MOST_WAITING = 2000
LAST_SECONDS = 2.0
"""Time limit for writing the waiting Events when the operator ends."""


class EventWriter:
    """Writes Events while it runs."""

    def __init__(self, api: Api) -> None:
        """Prepare the writer. It writes after `start`."""
        self._api = api
        self._waiting: asyncio.Queue[tuple[ConsumerGroup, Notice]] = asyncio.Queue(MOST_WAITING)
        self._task: asyncio.Task[None] | None = None
        self._brake = RateLimiter()

    def announce(self, group: ConsumerGroup, what: Notice) -> None:
        """Queue an Event, unless this group has had too many Events with the same reason."""
        held = self._brake.let_through((group.head.uid, what.reason), time.monotonic())
        if held is None:
            return
        if held:
            text = f"{what.message} ({held} more Events with this reason were suppressed)"
            what = replace(what, message=text)
        try:
            self._waiting.put_nowait((group, what))
        except asyncio.QueueFull:
            text = "%s: an Event is dropped because too many are waiting: %s"
            log.warning(text, group, what.message)

    def start(self) -> None:
        """Start writing."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Write the waiting Events within a time limit, then stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await self._waiting.join()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            group, what = await self._waiting.get()
            place = paths.build_list_path(paths.EVENTS, group.head.key.namespace)
            try:
                await self._api.ask_unfenced(ApiRequest("POST", place, build_event(group, what)))
            except EvenkeelError as error:
                log.warning("%s: an Event cannot be written: %s", group, error)
            self._waiting.task_done()
