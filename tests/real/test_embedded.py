"""`evenkeel run` and the demo: the whole product without Kubernetes, in separate processes."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mq_client import blocking
from mq_client.choosers import RoundRobin
from mq_client.messages import Message
from sandbox import archive, jars, process
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 900.0
ENVIRONMENT = {"PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}"}
MANIFESTS = """\
apiVersion: evenkeel.dev/v1alpha1
kind: Topic
metadata: {{name: orders}}
spec: {{topic: {topic}, nameServers: ["{name_server}"]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: billing-code}}
data:
  shout.py: |
    from pyspark.sql.functions import col, upper

    def transform(df):
        return df.select(upper(col("body").cast("string")).alias("body"))
---
apiVersion: evenkeel.dev/v1alpha1
kind: ConsumerGroup
metadata: {{name: billing}}
spec:
  group: {group}
  suspend: {suspend}
  topics: [{{name: orders}}]
  job:
    executors: 1
    transform: {{configMapRef: {{name: billing-code, key: shout.py}}}}
    sink: {{format: json, path: "{folder}/rows"}}
    checkpoint: {{url: "{folder}/checkpoint"}}
"""


class Embedded:
    """`python -m evenkeel run` on a file."""

    def __init__(self, folder: Path, **fields: str) -> None:
        """Start nothing yet."""
        self.folder = folder
        self._fields = fields
        self._processes = process.Folder("evenkeel-run-")

    def write(self, *, suspend: bool = False) -> None:
        """Write the file, as an editor does."""
        fields = {**self._fields, "suspend": str(suspend).lower(), "folder": str(self.folder)}
        part = self.folder / "part"
        part.write_text(MANIFESTS.format(**fields))
        part.replace(self.folder / "billing.yaml")

    def start(self) -> None:
        """Start the process with the file."""
        file, state = str(self.folder / "billing.yaml"), str(self.folder / "state")
        command = [sys.executable, "-m", "evenkeel_cli", "run", "-f", file, "--state", state]
        environment = {**ENVIRONMENT, **archive.make_environment()}
        self.process = process.ChildProcess("run", command, self._processes, environment)

    def close(self) -> None:
        """End the process and all that it has started."""
        self._processes.close()

    def status(self) -> dict[str, Any]:
        """Read the group's status from the file."""
        with contextlib.suppress(FileNotFoundError):
            for each in json.loads((self.folder / "state" / "status.json").read_text()):
                if each["kind"] == "ConsumerGroup":
                    found: dict[str, Any] = each["status"]
                    return found
        return {}

    def until(self, reason: str) -> dict[str, Any]:
        """Wait until the group's condition Ready has this reason; return the status."""
        seen = wait_for(
            self.status,
            lambda it: ready(it) == reason or not self.process.is_running,
            PATIENCE_SECONDS,
        )
        assert ready(seen) == reason, self.process.log.read_text()
        return seen

    def bodies(self) -> list[str]:
        """Read the bodies in the sink."""
        rows = (self.folder / "rows").glob("query=*/batch=*/part-*.json")
        return [json.loads(line)["body"] for part in rows for line in part.read_text().splitlines()]


def ready(status: dict[str, Any]) -> str:
    found = [each["reason"] for each in status.get("conditions", []) if each["type"] == "Ready"]
    return str(found[0]) if found else ""


@pytest.fixture
def embedded(rocketmq: RocketMq, topic: str, group: str, tmp_path: Path) -> Iterator[Embedded]:
    found = Embedded(tmp_path, name_server=rocketmq.name_server.address, topic=topic, group=group)
    found.write()
    yield found
    found.close()


def test_a_group_runs_from_a_file_and_a_second_run_goes_on_where_it_was(
    embedded: Embedded, client: blocking.Client, topic: str
) -> None:
    chooser = RoundRobin()
    client.send([Message(topic, b"first")], chooser)
    embedded.start()
    embedded.until("Running")
    assert "billing: Running: epoch 1, " in embedded.process.log.read_text()
    client.send([Message(topic, b"second")], chooser)
    wait_for(lambda: len(embedded.bodies()), lambda count: count == 2, PATIENCE_SECONDS)
    embedded.write(suspend=True)
    suspended = embedded.until("NotRunning")
    assert suspended["epoch"] == 1
    embedded.process.stop(PATIENCE_SECONDS)
    client.send([Message(topic, b"third")], chooser)
    embedded.write()
    embedded.start()
    embedded.until("Running")
    wait_for(lambda: len(embedded.bodies()), lambda count: count == 3, PATIENCE_SECONDS)
    embedded.process.stop(PATIENCE_SECONDS)
    assert sorted(embedded.bodies()) == ["FIRST", "SECOND", "THIRD"]
    assert embedded.status()["epoch"] == 1


DEMO = """
import asyncio, sys
from demo import __main__ as demo

demo.WATCH_SECONDS = 0.0  # nobody watches
sys.exit(asyncio.run(demo.main()))
"""


def test_the_demo_loses_nothing_and_doubles_nothing() -> None:
    if jars.find_java() is None:
        pytest.skip("NO DEMO: there is no Java")
    command = [sys.executable, "-c", DEMO]
    environment = {**os.environ, **ENVIRONMENT, **archive.make_environment()}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    last = ended.stdout.splitlines()[-1]
    match = re.fullmatch(r"sent ([0-9]+) consumed ([0-9]+) lost 0 duplicated 0", last)
    assert match, last
    assert match[1] == match[2]
    assert int(match[1]) > 0
