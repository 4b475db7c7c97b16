"""Plays a few random histories of a flow whose processes are killed: see `make kills`."""

from pathlib import Path

import pytest

from mq_client.blocking import Client
from sandbox import jars
from sandbox.rocketmq import RocketMq
from tests.kills import flow

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

HISTORIES = 3


def test_each_message_is_written_once_whoever_is_killed(
    rocketmq: RocketMq, client: Client, seed: int, tmp_path: Path, unique_name: str
) -> None:
    for number in range(HISTORIES):
        folder = tmp_path / str(number)
        folder.mkdir()
        flow.play(rocketmq, client, folder, f"{unique_name}-{number}", seed + number)
