"""What the command prints when it cannot start, and what it serves on its port."""

import asyncio
import re
from pathlib import Path

import aiohttp
import pytest

from contract import exit_codes
from follower import command_line, serving
from follower.brake import Brake
from follower.metrics import Metrics

ROOT = Path(__file__).parents[3]
GIVEN = ["--coordinator", "http://127.0.0.1:1", "--group", "shop/billing"]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("handle", "give MODULE:FUNCTION"),
        ("no_such_module:handle", "importing no_such_module failed: ModuleNotFoundError"),
        ("json:handle", "json has no handle"),
        ("json:__name__", "__name__ cannot be called"),
    ],
)
def test_a_handler_that_cannot_be_imported_ends_it(
    place: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main([place, *GIVEN]) == exit_codes.PERMANENT
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--batch", "0"], "not a whole number from 1"),
        (["--on-failure", "panic"], "invalid choice"),
        (["--metrics-port", "99999"], "is not a port"),
    ],
)
def test_wrong_usage_says_what_is_wrong(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main(["json:loads", *GIVEN, *more])
    assert ended.value.code == command_line.MISUSED
    assert said in capsys.readouterr().err


def test_a_dead_letter_topic_needs_the_choice(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["json:loads", *GIVEN, "--dead-letter", "orders-dead"]
    assert command_line.main(arguments) == exit_codes.PERMANENT
    assert "set on_failure to dead-letter too" in capsys.readouterr().err


def test_health_readiness_and_metrics_are_served(unused_port: int) -> None:
    trouble = "no coordinator has answered yet"

    async def story() -> None:
        async with (
            serving.serve(unused_port, Metrics().registry, lambda: trouble),
            aiohttp.ClientSession(f"http://127.0.0.1:{unused_port}") as client,
        ):

            async def get(path: str) -> tuple[int, str]:
                async with client.get(path) as answer:
                    return answer.status, await answer.text()

            assert await get("/healthz") == (200, "ok\n")
            assert await get("/readyz") == (503, f"{trouble}\n")
            status, text = await get("/metrics")
            assert status == 200
            assert "evenkeel_follower_held_queues 0.0" in text

    asyncio.run(story())


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        found: int = server.getsockname()[1]
    return found


def test_the_page_names_all_metrics() -> None:
    page = (ROOT / "docs" / "follower.md").read_text("utf-8")
    for metric in Metrics().registry.collect():
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        assert f"`{name}`" in page


def test_a_lasting_trouble_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    brake = Brake(command_line.log)
    with caplog.at_level("INFO"):
        for _ in range(5):
            brake.say("broker", "the broker is away")
        brake.clear("broker", "the broker answers")
        brake.clear("broker", "the broker answers")
    said = [re.sub(r"[\d.]+ s", "N s", each.getMessage()) for each in caplog.records]
    assert said == ["the broker is away", "the broker answers, after N s"]
