"""
Runs the commands of a page about members exactly as written, in three terminals: `evenkeel run` and
two members.

Orders are numbered, so that the test can count each order.
"""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mq_client.blocking import Client
from mq_client.choosers import To
from mq_client.messages import Message
from mq_client.values import MessageQueue
from sandbox.waiting import wait_for

MEMBERS = ("one", "two")


@dataclass(frozen=True)
class Terminals:
    """The terminals of the two members."""

    folder: Path
    members: Sequence[subprocess.Popen[bytes]]

    def read(self) -> list[str]:
        """Read what each member has printed."""
        return [(self.folder / name).read_text("utf-8") for name in MEMBERS]

    def check_orders(self, client: Client, topic: str, pattern: str) -> None:
        """
        Send orders to all queues. Each member must print half of them.

        `pattern` finds a printed order.
        """
        for broker in ("broker-a", "broker-b"):
            for number in range(2):
                to = To(MessageQueue(topic, broker, number))
                client.send([Message(topic, b"order %d" % each) for each in range(5)], to)
        found = wait_for(
            lambda: [re.findall(pattern, each) for each in self.read()],
            lambda found: sum(map(len, found)) >= 20,
        )
        assert [len(each) for each in found] == [10, 10], self.read()


@contextlib.contextmanager
def play(folder: Path, manifest: str, port: int, member: Sequence[str]) -> Iterator[Terminals]:
    """Run the coordinator on this port, and two members by this command, until the block ends."""
    (folder / "members.yaml").write_text(manifest)
    run = [sys.executable, "-m", "evenkeel_cli", "run", "-f", "members.yaml"]
    with contextlib.ExitStack() as begun:

        def begin(name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
            with (folder / name).open("wb") as out:
                process = subprocess.Popen(
                    command, cwd=folder, env={**os.environ, "PYTHONUNBUFFERED": "1"},
                    stdout=out, stderr=subprocess.STDOUT,
                )  # fmt: skip
            begun.callback(process.wait)
            begun.callback(process.kill)
            return process

        begin("run", [*run, "--members-port", str(port)])
        assert wait_for((folder / ".evenkeel/members.token").exists, bool)
        yield Terminals(folder, [begin(name, member) for name in MEMBERS])
