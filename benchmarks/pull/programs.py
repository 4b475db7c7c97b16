"""
Starts the measured programs, ours and the peers, and gives them jobs.

Each is a separate process that runs for the whole benchmark, so that it is warm. Between its jobs
it waits, while the others have their turn.
"""

import contextlib
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peers
from benchmarks.pull import messages
from benchmarks.pull.player import Job
from mq_client import pulling
from sandbox.rocketmq import RocketMq

HEAP = "2g"
"""The heap of each JVM."""

_JAVA = Path(__file__).parent / "peers" / "jvm"


@dataclass(frozen=True, slots=True)
class Measured:
    """What a program reports after a job."""

    messages: int
    seconds: float
    cpu_seconds: float
    rss_mib: float = 0.0
    """The memory after the job; only Python programs report it."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """All rounds of one job, without the warm-up."""

    rounds: Sequence[Measured]

    @property
    def rates(self) -> list[float]:
        """Messages a second, from the slowest round to the fastest."""
        return sorted(each.messages / each.seconds for each in self.rounds)

    @property
    def rate(self) -> float:
        """Messages a second, of the median round."""
        return statistics.median(self.rates)

    @property
    def cpu_us(self) -> float:
        """CPU time of the client per message, in microseconds."""
        return statistics.median(each.cpu_seconds / each.messages * 1e6 for each in self.rounds)


@dataclass(frozen=True, slots=True)
class Program:
    """One of our programs, or a peer."""

    name: str
    command: Callable[[RocketMq], Sequence[str]]


class Running:
    """A program that waits for jobs."""

    def __init__(self, program: Program, process: peers.Process) -> None:
        """Keep what `start` has started."""
        self.program = program
        self._process = process

    def ask(self, work: str, job: Job) -> Measured:
        """Run a job."""
        popen = self._process.popen
        assert popen.stdin
        assert popen.stdout
        with contextlib.suppress(BrokenPipeError):
            popen.stdin.write(f"{work} {job.topic} {job.queues} {job.messages}\n")
            popen.stdin.flush()
        line = popen.stdout.readline()
        if not line:
            raise self._process.make_failure("has ended")
        measured = Measured(**json.loads(line))
        if measured.messages != job.messages:
            raise peers.ProgramFailedError(f"{self.program.name} reports {measured} for {job}")
        return measured


@contextlib.contextmanager
def start(program: Program, mq: RocketMq) -> Iterator[Running]:
    """Run a program until the context is left."""
    with peers.start(program.name, program.command(mq), subprocess.PIPE) as process:
        yield Running(program, process)
        assert process.popen.stdin
        process.popen.stdin.close()
        process.wait()


def _make_ours(mq: RocketMq) -> list[str]:
    return [sys.executable, "-m", "benchmarks.pull.ours", mq.name_server.address]


def _make_follower(mq: RocketMq) -> list[str]:
    return [sys.executable, "-m", "benchmarks.pull.following", mq.name_server.address]


def _ceiling(mq: RocketMq) -> list[str]:
    (broker,) = mq.brokers.values()
    return [sys.executable, "-m", "benchmarks.pull.peers.ceiling", broker.address]


def jvm(client: str, at_once: int) -> Callable[[RocketMq], list[str]]:
    """Return how to start a client of Java: a class in `peers/jvm`."""

    def command(mq: RocketMq) -> list[str]:
        arguments = ("Bench", client, mq.name_server.address, str(at_once))
        return peers.jvm(_JAVA, [peers.ROCKETMQ], HEAP, *arguments)

    return command


OURS = Program("ours", _make_ours)
CEILING = Program("frames only", _ceiling)
RAW_PULL = Program("DefaultMQPullConsumer", jvm("RawPull", pulling.MOST_MESSAGES))
LITE_PULL = Program("DefaultLitePullConsumer", jvm("LitePull", pulling.MOST_MESSAGES))
FOLLOWER = Program("follower", _make_follower)
PUSH = Program("DefaultMQPushConsumer", jvm("Push", pulling.MOST_MESSAGES))
BATCH_SEND = Program("DefaultMQProducer", jvm("BatchSend", messages.A_BATCH))

PULLERS = (OURS, CEILING, RAW_PULL, LITE_PULL)
FOLLOWERS = (FOLLOWER, PUSH)
SENDERS = (OURS, BATCH_SEND)
