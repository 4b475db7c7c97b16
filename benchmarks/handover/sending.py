"""Sends messages to a topic at a steady rate, from a separate process."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peers
from benchmarks.handover.effects import Sent


@dataclass(frozen=True, slots=True)
class SteadySender:
    """A running sender."""

    process: peers.Process
    told: Path

    def stop(self) -> Sent:
        """Stop sending, and return what was sent."""
        assert self.process.popen.stdin
        self.process.popen.stdin.close()
        if self.process.wait():
            raise self.process.make_failure("has failed")
        lines = [json.loads(line) for line in self.told.read_text().splitlines()]
        return Sent(
            [(line["at"], line["sent"]) for line in lines],
            frozenset(number for line in lines for number in line["unsure"]),
        )


@contextlib.contextmanager
def keep_sending(name_server: str, topic: str, told: Path) -> Iterator[SteadySender]:
    """Send until the context is left or `stop` is called."""
    command = [
        sys.executable, "-m", "benchmarks.handover.sender", name_server, topic, str(told),
    ]  # fmt: skip
    with peers.start("the sender", command, subprocess.PIPE) as process:
        yield SteadySender(process, told)
