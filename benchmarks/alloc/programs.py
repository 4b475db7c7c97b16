"""
Builds and starts the measured programs, ours and the peers.

Each program is a separate process that plays a script from its standard input. The programs run one
after the other, so that nothing runs beside the measured one.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.alloc import ours
from benchmarks.alloc.scenarios import LARGE, MIDDLE, SIZES, SMALL, Size
from sandbox import go, jars

KAFKA = "org.apache.kafka:kafka-group-coordinator:4.4.0"
HEAP = "3g"
"""The heap size of each JVM."""

_PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True, slots=True)
class Program:
    """One of our programs, or a peer."""

    name: str
    command: Callable[[], list[str]]
    sizes: tuple[Size, ...] = SIZES
    fragmented: tuple[Size, ...] = ()
    """Sizes at which the program plays all joins and leaves within minutes."""
    is_jvm: bool = False
    """Whether the program gets faster while it runs, and so needs a long warm-up."""
    rehearse: bool = False
    """Whether its virtual machine must run all events once to be warm."""


def play(program: Program, script: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Run a program over a script, and yield each line of its answer as it arrives."""
    with tempfile.TemporaryFile("w+") as told:
        told.writelines(f"{line}\n" for line in script)
        told.seek(0)
        with peers.start(program.name, program.command(), told) as process:
            for line in process.popen.stdout or ():
                yield json.loads(line)
            if code := process.wait():
                raise process.make_failure(f"ended with {code}")


def our(name: str) -> list[str]:
    """Make the command of one of our programs."""
    return [sys.executable, "-m", "benchmarks.alloc.ours", name]


def _jvm(*program: str) -> list[str]:
    return peers.jvm(_PEERS / "jvm", (peers.ROCKETMQ, KAFKA), HEAP, *program)


def _franz_go() -> list[str]:
    source = _PEERS / "franz_go"
    key = jars.digest(*(path.read_text() for path in sorted(source.iterdir())))
    folder = jars.find_cache() / "go" / f"bench-{key}"
    jars.make_once(
        folder,
        "the peer in Go",
        lambda place: jars.run(
            go.find_toolchain(), "build", "-o", place / "franz-go", ".", cwd=source
        ),
    )
    return [str(folder / "franz-go")]


STICKY = Program("STICKY", lambda: our("STICKY"), fragmented=SIZES)
STATUS = Program("STATUS", lambda: our(ours.STATUS), sizes=(LARGE,))
AVG = Program("AVG", lambda: our("AVG"))
CIRCLE = Program("AVG_BY_CIRCLE", lambda: our("AVG_BY_CIRCLE"))
HASH = Program("CONSISTENT_HASH", lambda: our("CONSISTENT_HASH"))

ROCKETMQ_AVG = Program("RocketMQ AVG", lambda: _jvm("RocketMq", "AVG"), is_jvm=True)
ROCKETMQ_CIRCLE = Program(
    "RocketMQ AVG_BY_CIRCLE", lambda: _jvm("RocketMq", "AVG_BY_CIRCLE"), is_jvm=True
)
ROCKETMQ_HASH = Program(
    "RocketMQ CONSISTENT_HASH", lambda: _jvm("RocketMq", "CONSISTENT_HASH"), is_jvm=True
)
UNIFORM = Program(
    "Kafka Uniform",
    lambda: _jvm("KafkaUniform"),
    fragmented=SIZES,
    is_jvm=True,
    rehearse=True,
)
COOPERATIVE = Program(
    "Kafka CooperativeSticky",
    lambda: _jvm("KafkaCooperative"),
    fragmented=(SMALL, MIDDLE, LARGE),
    is_jvm=True,
    rehearse=True,
)
FRANZ_GO = Program("franz-go", _franz_go, fragmented=(SMALL, MIDDLE, LARGE))
KAFKA_PYTHON = Program(
    "kafka-python",
    lambda: [sys.executable, "-m", "benchmarks.alloc.peers.kafka_python"],
    sizes=(SMALL, MIDDLE),
)

ALL = (
    STICKY, STATUS, UNIFORM, COOPERATIVE, FRANZ_GO, KAFKA_PYTHON,
    AVG, ROCKETMQ_AVG, CIRCLE, ROCKETMQ_CIRCLE, HASH, ROCKETMQ_HASH,
)  # fmt: skip
