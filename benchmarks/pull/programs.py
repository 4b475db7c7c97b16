"""
The programs that are measured, ours and the peers: how each is started and asked.

Each is a process of its own that lives for the whole run, so that it is warm; between its jobs it
sleeps, while the others have their turn.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.pull import messages
from benchmarks.pull.player import Job
from mq_client import pulling
from sandbox import jars
from sandbox.rocketmq import RocketMq

ROCKETMQ = "org.apache.rocketmq:rocketmq-client:5.4.0"
HEAP = "2g"
"""For each JVM, from the start: a heap that grows while it is measured spoils the first rounds."""

_PEERS = Path(__file__).parent / "peers"
_SECONDS_TO_LEAVE = 30


class ProgramFailedError(Exception):
    """A measured program ended, or did something else than it was asked for."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a program says about a job."""

    messages: int
    seconds: float
    cpu_seconds: float
    rss_mib: float = 0.0
    """After the job; only Python programs tell."""


@dataclass(frozen=True, slots=True)
class Program:
    """One of ours or a peer."""

    name: str
    command: Callable[[RocketMq], Sequence[str]]


class Running:
    """A program that waits for jobs."""

    def __init__(self, program: Program, process: subprocess.Popen[str], log: Path) -> None:
        """Take what `started` has started."""
        self.program = program
        self._process = process
        self._log = log

    def ask(self, work: str, job: Job) -> Measured:
        """Let it do a job."""
        assert self._process.stdin
        assert self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{work} {job.topic} {job.queues} {job.messages}\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            end = "".join(self._log.read_text(errors="replace").splitlines(keepends=True)[-15:])
            raise ProgramFailedError(f"{self.program.name} has ended:\n{end}")
        measured = Measured(**json.loads(line))
        if measured.messages != job.messages:
            raise ProgramFailedError(f"{self.program.name} made {measured} of {job}")
        return measured


@contextlib.contextmanager
def started(program: Program, mq: RocketMq) -> Iterator[Running]:
    """Start a program; it ends when left."""
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as place:
        log = Path(place) / "log"
        with log.open("w") as said, subprocess.Popen(
            program.command(mq), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
            text=True,
        ) as process:  # fmt: skip
            try:
                yield Running(program, process, log)
                assert process.stdin
                process.stdin.close()
                process.wait(_SECONDS_TO_LEAVE)
            finally:
                process.kill()


def _ours(mq: RocketMq) -> list[str]:
    return [sys.executable, "-m", "benchmarks.pull.ours", mq.name_server.address]


def _ceiling(mq: RocketMq) -> list[str]:
    (broker,) = mq.brokers.values()
    return [sys.executable, "-m", "benchmarks.pull.peers.ceiling", broker.address]


def _jvm(client: str, at_once: int) -> Callable[[RocketMq], list[str]]:
    def command(mq: RocketMq) -> list[str]:
        libraries = jars.classpath(ROCKETMQ)
        classes = jars.compiled(list((_PEERS / "jvm").glob("*.java")), libraries)
        return [
            str(jars.java()),
            f"-Xms{HEAP}",
            f"-Xmx{HEAP}",
            # RocketMQ opens its log at once, and would do so in the home folder.
            f"-Drocketmq.log.root={tempfile.gettempdir()}/evenkeel-bench",
            "-cp",
            f"{classes}{os.pathsep}{libraries}",
            "Bench",
            client,
            mq.name_server.address,
            str(at_once),
        ]

    return command


OURS = Program("ours", _ours)
CEILING = Program("frames only", _ceiling)
RAW_PULL = Program("DefaultMQPullConsumer", _jvm("RawPull", pulling.MOST_MESSAGES))
LITE_PULL = Program("DefaultLitePullConsumer", _jvm("LitePull", pulling.MOST_MESSAGES))
BATCH_SEND = Program("DefaultMQProducer", _jvm("BatchSend", messages.A_BATCH))

PULLERS = (OURS, CEILING, RAW_PULL, LITE_PULL)
SENDERS = (OURS, BATCH_SEND)
