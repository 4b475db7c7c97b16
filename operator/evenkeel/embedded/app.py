"""
`evenkeel run -f FILE`: runs the same control loop as in a cluster.

Objects come from a file, and jobs run as processes.
"""

import asyncio
import logging
import secrets
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from evenkeel.control.loop import Loop
from evenkeel.embedded import driver
from evenkeel.embedded.alone import hold_locks
from evenkeel.embedded.screen import Screen
from evenkeel.embedded.world import FileWorld
from evenkeel.errors import EvenkeelError
from evenkeel.members import server
from evenkeel.members.doors import TokenDoor

LOOK_SECONDS = 0.25
TOKEN = "members.token"  # noqa: S105 the name of a file
log = logging.getLogger("evenkeel")


async def run(file: Path, folder: Path, members_port: int) -> None:
    """Run until Ctrl-C or SIGTERM. Then let jobs finish the batches that are running."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    screen = Screen()
    async with run_world(file, folder, screen, members_port):
        screen.say(f"status and logs are in {folder}")
        await stop.wait()
        screen.say("stopping: jobs finish the batches that are running")


@asynccontextmanager
async def run_world(
    file: Path, folder: Path, screen: Screen, members_port: int = 0
) -> AsyncIterator[FileWorld]:
    """Run while the block runs. Port 0 means any free port."""
    with hold_locks(file, folder):
        async with _start(FileWorld(file, folder, screen.hear), screen) as world:
            listening = None
            if world.coordination.needed.is_set():  # if the port is taken, the run ends at once
                listening = server.open_port(members_port)
            serving = asyncio.create_task(
                _serve_members(world, folder, screen, members_port, listening)
            )
            try:
                yield world
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)


@asynccontextmanager
async def _start(world: FileWorld, screen: Screen) -> AsyncIterator[FileWorld]:
    loop = Loop(world)
    with screen.show_world(world):
        world.attach(loop)
        if any(group.spec.job is not None for group in world.list_groups()):
            driver.refuse_if_missing()
        looking = asyncio.create_task(_keep_looking(world))
        try:
            yield world
        finally:
            looking.cancel()
            await loop.close()
            await world.close()


async def _serve_members(
    world: FileWorld, folder: Path, screen: Screen, port: int, listening: socket.socket | None
) -> None:
    """Wait until a group has `spec.consumers.members`, then answer members."""
    await world.coordination.needed.wait()
    token = folder / TOKEN
    if not token.exists():  # members that still run use the token of the last run
        driver.write_private(token, secrets.token_urlsafe())
    try:
        listening = listening or server.open_port(port)
        door = TokenDoor(token.read_text())
        async with server.serve(world.coordination, door, listening) as opened:
            screen.say(f"members ask http://127.0.0.1:{opened}, with the token in {token}")
            await asyncio.Event().wait()
    except EvenkeelError as error:
        log.error("%s", error)


async def _keep_looking(world: FileWorld) -> None:
    while True:
        try:
            world.look()
        except Exception:  # jobs continue, and the next change of the file is read
            log.exception("this is a defect of Evenkeel; the file is read again later")
        await asyncio.sleep(LOOK_SECONDS)
