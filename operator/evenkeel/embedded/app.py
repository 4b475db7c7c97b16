"""`evenkeel run -f FILE`: the same loop as in a cluster, over a file and processes."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from evenkeel.control.loop import Loop
from evenkeel.embedded import driver
from evenkeel.embedded.alone import alone
from evenkeel.embedded.screen import Screen
from evenkeel.embedded.world import FileWorld

LOOK_SECONDS = 0.25
log = logging.getLogger("evenkeel")


async def run(file: Path, folder: Path) -> None:
    """Run until Ctrl-C or SIGTERM, then let the batches that run finish."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    screen = Screen()
    async with running(file, folder, screen):
        screen.say(f"status and logs are in {folder}")
        await stop.wait()
        screen.say("stopping: batches that run are finished first")


@asynccontextmanager
async def running(file: Path, folder: Path, screen: Screen) -> AsyncIterator[FileWorld]:
    """Run for as long as this lasts."""
    driver.refuse_if_missing()
    with alone(file, folder):
        async with _started(FileWorld(file, folder, screen.hear), screen) as world:
            yield world


@asynccontextmanager
async def _started(world: FileWorld, screen: Screen) -> AsyncIterator[FileWorld]:
    loop = Loop(world)
    with screen.showing(world):
        world.attach(loop)
        looking = asyncio.create_task(_keep_looking(world))
        try:
            yield world
        finally:
            looking.cancel()
            await loop.close()
            await world.close()


async def _keep_looking(world: FileWorld) -> None:
    while True:
        try:
            world.look()
        except Exception:  # whatever it is, jobs go on and the next edit is seen
            log.exception("this is a defect of Evenkeel; the file is looked at again")
        await asyncio.sleep(LOOK_SECONDS)
