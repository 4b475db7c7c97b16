"""`evenkeel run` with a group whose consumers are members."""

import asyncio
import functools
import io
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from contract.following import MemberRequest
from evenkeel.crds import CONSUMER_GROUP, TOPIC
from evenkeel.embedded import app
from evenkeel.embedded.screen import Screen
from evenkeel.embedded.world import FileWorld
from evenkeel.errors import EvenkeelError
from evenkeel.members import server
from evenkeel.objects import Key
from sandbox.waiting import wait_for
from tests import specs

BILLING = Key("default", "billing")
MANIFESTS = [
    specs.thing(TOPIC, "orders", {"route": [specs.QUEUES]}),
    specs.thing(
        CONSUMER_GROUP, "billing", {**specs.TOPICS, "consumers": {"members": {"session": "1s"}}}
    ),
]


Story = Callable[[FileWorld, Screen], Awaitable[None]]


def run(folder: Path, out: io.StringIO, story: Story, port: int = 0) -> None:
    """Run the file while the story lasts."""
    file = folder / "members.yaml"
    file.write_text(yaml.safe_dump_all(MANIFESTS))
    screen = Screen(Console(file=out, width=100))

    async def body() -> None:
        async with app.run_world(file, folder / "state", screen, port) as world:
            await story(world, screen)

    asyncio.run(body())


def test_a_port_that_is_taken_ends_the_run(tmp_path: Path) -> None:
    async def nothing(*_: object) -> None:
        pytest.fail("it runs without a coordinator")

    with server.open_loopback(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EvenkeelError, match=f"port {port} for members cannot be opened"):
            run(tmp_path, io.StringIO(), nothing, port)


def test_the_picture_names_the_member_and_says_when_nobody_reads(tmp_path: Path) -> None:
    out = io.StringIO()
    pictures = []

    async def draw_until(word: str, screen: Screen) -> None:
        draw = functools.partial(_draw, screen, out)
        pictures.append(await asyncio.to_thread(wait_for, draw, lambda drawn: word in drawn))

    async def story(world: FileWorld, screen: Screen) -> None:
        group = world.find_group(BILLING)
        assert group is not None
        live = functools.partial(world.list_live, group)
        assert await asyncio.to_thread(wait_for, live, lambda found: found is not None) == []
        await world.coordination.ask(BILLING, "vm-1", MemberRequest("s", 1, wait_seconds=0))
        await draw_until("vm-1", screen)
        world.coordination.leave(BILLING, "vm-1", "s")
        await draw_until("empty", screen)

    run(tmp_path, out, story)
    assert "MEMBER" in pictures[0]
    assert "adopted" not in pictures[0], "only jobs adopt"
    assert "8 queues are being handed over to another member, or have no" in pictures[1]


def _draw(screen: Screen, out: io.StringIO) -> str:
    start = out.tell()
    screen.show()
    return out.getvalue()[start:]
