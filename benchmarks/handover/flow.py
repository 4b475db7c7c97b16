"""A steady flow of messages to a topic, sent by a process of its own."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from benchmarks import peers


@contextlib.contextmanager
def flowing(name_server: str, topic: str) -> Iterator[peers.Process]:
    """Send for as long as this lasts, or until it is stopped."""
    command = [sys.executable, "-m", "benchmarks.handover.sender", name_server, topic]
    with peers.started("the sender", command, subprocess.PIPE) as process:
        yield process


def stopped(sender: peers.Process) -> int:
    """Stop it; how many messages it has sent."""
    assert sender.popen.stdin
    assert sender.popen.stdout
    sender.popen.stdin.close()
    said = sender.popen.stdout.readline()
    if not said:
        raise sender.failure("has ended")
    return int(said)
