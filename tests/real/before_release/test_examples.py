"""The examples run unchanged, one after the other."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import archive, jars, rocketmq

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")


def run(name: str, *arguments: str) -> list[str]:
    """Run an example, and return what it prints."""
    done = subprocess.run(
        [sys.executable, f"examples/{name}.py", *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            **archive.make_environment(),
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


def test_the_examples_send_count_stream_and_pin(tmp_path: Path) -> None:
    with rocketmq.run(brokers=2) as mq:
        where = mq.name_server.address
        assert run("sink", where) == ["sent 4 orders"]
        assert [re.sub(r"\d$", "N", line) for line in run("batch", where)] == [
            "ann ordered for 20.00, in queue N",
            "ben ordered for 25.00, in queue N",
        ]
        receipts = [f"receipt for order {number}" for number in (1, 2, 3)]
        assert run("stream", where, str(tmp_path)) == receipts
        assert run("stream", where, str(tmp_path)) == receipts
        first, *rows = run("pinned", where, str(tmp_path))
    assert re.fullmatch(r"epoch 1 rows by slot \{.*\}", first)
    orders = [json.loads(json.loads(row)["body"]) for row in rows]
    assert sorted(order["number"] for order in orders) == ["1", "2", "3", "3"]
    by_customer = [order["number"] for order in orders if order["customer"] == "ann"]
    assert by_customer == ["1", "3", "3"]
