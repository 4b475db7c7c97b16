"""
Plays random histories whose processes are killed and frozen: `make kills`.

Each history has its own seed, counted from `--seed`. `--histories 1 --seed N` plays one again.
"""

from pathlib import Path
from types import ModuleType

import pytest

from mq_client.blocking import Client
from sandbox import jars, rocketmq
from tests.kills import batch, flow

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")


@pytest.mark.parametrize("engine", [flow, batch], ids=["flow", "batch"])
def test_each_message_is_written_once_whoever_is_killed(
    engine: ModuleType,
    seed: int,
    pytestconfig: pytest.Config,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    count = int(pytestconfig.getoption("histories"))
    with rocketmq.run(brokers=2) as mq, Client(mq.name_server.address) as client:
        for number in range(seed, seed + count):
            folder = tmp_path / str(number)
            folder.mkdir()
            engine.play(mq, client, folder, f"kills-{number}", number)
            with capsys.disabled():
                print(f"\nhistory {number}: lost 0, duplicated 0", end="", flush=True)  # noqa: T201
