"""Ask RocketMQ's own classes what they answer: one Java process, one group a line."""

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
    Return RocketMQ's answers, one list a request with one answer a caller.

    An answer is `[kind, message]` where RocketMQ throws, else the `[topic, broker, id]` of the
    queues under "queues", or None there.
    """
    classes = jars.compile_sources([HERE / "RocketMqOracle.java"], libraries)
    # This folder is on the class path for the file that silences RocketMQ's logs.
    command = [str(jars.find_java()), "-cp", f"{HERE}:{classes}:{libraries}", "RocketMqOracle"]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the oracle failed: {done.stderr[-4000:]}"
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(requests), f"{len(found)} answers to {len(requests)} requests"
    return found
