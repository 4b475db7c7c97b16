"""
Measure how much a slow broker costs a producer: `python -m benchmarks.send`.

One of three brokers answers only once a second. Prints how many messages each producer sends then,
and when all brokers are fast. Exits with 1 if a target is missed.
"""

import contextlib
import os
import platform
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import options, page, peers, progress, targets
from benchmarks.pull import messages, programs, stage
from benchmarks.pull.player import Job
from benchmarks.pull.programs import HEAP, Measured, Program, Rounds
from benchmarks.send import senders
from benchmarks.targets import Figure
from sandbox import jars, process, rocketmq
from sandbox.rocketmq import RocketMq

RESULTS = Path(__file__).parents[1] / "RESULTS-send.md"
BROKERS, QUEUES, TOPIC = 3, 4, "sent"
SILENT_SECONDS, ANSWER_SECONDS = 1.0, 0.05
WARM_UP = 1
LEAST_KEPT = 1.0
_WORDS = f"""\
{BROKERS} brokers on the same machine. {senders.THREADS} threads share a producer, and send messages
of {messages.BODY_BYTES:,} bytes one by one. Each waits for its answer. Both producers avoid
slow brokers: ours with `AvoidSlow`, RocketMQ's with `sendLatencyFaultEnable`. A slow broker
is frozen for {SILENT_SECONDS:g} s, then runs for {ANSWER_SECONDS:g} s, and so on. Each
round slows another one down. `kept` is the rate beside a slow broker as a share of the rate
without one. Programs take turns. Figures are medians of the rounds; warm-up rounds are dropped."""


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one producer."""

    program: str
    fast: Rounds
    slow: Rounds

    @property
    def kept_percent(self) -> float:
        """The rate beside a slow broker, in percent of the rate without one."""
        return 100 * self.slow.rate / self.fast.rate


def main() -> int:
    """Measure, print, compare."""
    asked = options.parse("send", __doc__, RESULTS)
    try:
        ours, java = _measure(*((4_000, 1) if asked.quick else (40_000, 3)))
    except (jars.JarsError, process.SandboxError, peers.ProgramFailedError) as error:
        print(f"bench-send: {error}", file=sys.stderr)
        return 2
    body, figures = list(_make_table([ours, java])), list(_list_figures(ours, java))
    print("\n".join([*body, "", *targets.format_lines(figures)]))
    if asked.update:
        page.write(RESULTS, _format_page(body, figures))
    return 0 if all(figure.is_ok for figure in figures) else 1


def _measure(count: int, rounds: int) -> list[Row]:
    job = Job(TOPIC, BROKERS * QUEUES, count)
    producers = [
        Program("Evenkeel", _make_ours),
        Program("DefaultMQProducer", programs.jvm("Send", senders.THREADS)),
    ]
    with contextlib.ExitStack() as begun:
        mq = begun.enter_context(
            rocketmq.run(BROKERS, heap=stage.HEAP, java_options=stage.JAVA_OPTIONS)
        )
        mq.create_topics({TOPIC: QUEUES})
        running = [begun.enter_context(programs.start(each, mq)) for each in producers]
        fast: list[list[Measured]] = [[] for _ in running]
        slow: list[list[Measured]] = [[] for _ in running]
        for number in range(WARM_UP + rounds):
            progress.say(f"round {number + 1} of {WARM_UP + rounds}")
            slow_one = sorted(mq.brokers)[number % BROKERS]
            for place, program in enumerate(running):
                fast[place].append(program.ask(senders.SEND, job))
                with _slow_down(mq, slow_one):
                    slow[place].append(program.ask(senders.SEND, job))
    return [
        Row(program.name, Rounds(without[WARM_UP:]), Rounds(beside[WARM_UP:]))
        for program, without, beside in zip(producers, fast, slow, strict=True)
    ]


@contextlib.contextmanager
def _slow_down(mq: RocketMq, broker: str) -> Iterator[None]:
    """Let a broker answer only from time to time."""
    pid, is_over = mq.brokers[broker].pid, threading.Event()

    def freeze_again_and_again() -> None:
        while not is_over.is_set():
            os.kill(pid, signal.SIGSTOP)
            is_over.wait(SILENT_SECONDS)
            os.kill(pid, signal.SIGCONT)
            is_over.wait(ANSWER_SECONDS)

    freezing = threading.Thread(target=freeze_again_and_again)
    freezing.start()
    try:
        yield
    finally:
        is_over.set()
        freezing.join()


def _make_ours(mq: RocketMq) -> list[str]:
    return [sys.executable, "-m", "benchmarks.send.senders", mq.name_server.address]


def _make_table(rows: Sequence[Row]) -> Iterator[str]:
    yield f"{'producer':<20}{'messages/s':>12}{'beside a slow one':>19}{'kept':>8}{'CPU us':>9}"
    for row in rows:
        yield (
            f"{row.program:<20}{row.fast.rate:>12,.0f}{row.slow.rate:>19,.0f}"
            f"{row.kept_percent:>7.0f}%{row.fast.cpu_us:>9.0f}"
        )


def _list_figures(ours: Row, java: Row) -> Iterator[Figure]:
    yield Figure(
        f"share of the rate that a slow broker leaves / {java.program}",
        ours.kept_percent, java.kept_percent, LEAST_KEPT, "%",
    )  # fmt: skip


def _format_page(body: Sequence[str], figures: Sequence[Figure]) -> str:
    """Make the results page, which is committed."""
    java = page.ask_program(str(jars.find_java()), "-version")
    return page.format_page(
        "Sending beside a slow broker, compared with RocketMQ's own producer",
        [
            f"Python {platform.python_version()}; Java: {java}, heap {HEAP}",
            f"Brokers: RocketMQ {rocketmq.VERSION}, heap {stage.HEAP}",
            f"Peer: {peers.ROCKETMQ}",
            "`make bench-send`",
        ],
        _WORDS,
        body,
        map(targets.format_cells, figures),
    )


if __name__ == "__main__":
    sys.exit(main())
