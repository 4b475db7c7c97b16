"""Asks RocketMQ's own classes, in one Java process that reads one group per line."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandbox import jars

HERE = Path(__file__).parent
CLIENT = "org.apache.rocketmq:rocketmq-client:5.4.0"
BROKER = "org.apache.rocketmq:rocketmq-broker:5.4.0"


def answers(requests: Sequence[dict[str, Any]], libraries: str) -> list[Any]:
    """
    Return RocketMQ's answers: one list per request, with one answer per caller.

    If RocketMQ throws, an answer is `[kind, message]`. Otherwise, an answer is an object:
    "queues" is null or has rows `[topic, broker, id]`.
    """
    classes = jars.compile_sources([HERE / "RocketMqOracle.java"], libraries)
    # This folder is on the class path because it has the file that silences RocketMQ's logs.
    command = [str(jars.find_java()), "-cp", f"{HERE}:{classes}:{libraries}", "RocketMqOracle"]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the oracle failed: {done.stderr[-4000:]}"
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(requests), f"{len(found)} answers to {len(requests)} requests"
    return found
