"""The measured Spark programs, each a process with one session for all its rounds."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

from benchmarks import peers
from benchmarks.pull.programs import LITE_PULL, Program
from sandbox.rocketmq import RocketMq

LOCAL = "local[2]"
MASTERS = (LOCAL, "local-cluster[2,1,1024]")
OURS, CEILING = "ours", "rows made before"


def list_readers(master: str) -> list[Program]:
    """List our source, the upper bound of sources in Python, and a client that only receives."""
    return [
        Program(OURS, _make_ours(master)),
        Program(CEILING, lambda _: [*_module("peers.ceiling"), master]),
        LITE_PULL,
    ]


@contextlib.contextmanager
def run_idle(mq: RocketMq, topic: str) -> Iterator[int]:
    """Run a stream with nothing to read. Yield its process id when it has begun."""
    command = [*_module("idle"), mq.name_server.address, topic, LOCAL]
    with peers.start("the idle stream", command, subprocess.PIPE) as process:
        assert process.popen.stdin
        assert process.popen.stdout
        if not process.popen.stdout.readline():
            raise process.make_failure("has ended")
        yield process.popen.pid
        process.popen.stdin.close()
        process.wait()


def _make_ours(master: str) -> Callable[[RocketMq], Sequence[str]]:
    return lambda mq: [*_module("ours"), mq.name_server.address, master]


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.spark.{name}"]
