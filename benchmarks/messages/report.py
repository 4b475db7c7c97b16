"""Formats the results as tables, as figures with their targets, and as a page."""

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import page, peers, targets
from benchmarks.messages import popping, workers
from benchmarks.messages.workers import Delays, Run, Worked
from benchmarks.pull import messages, stage
from benchmarks.pull.programs import HEAP, Rounds
from benchmarks.targets import Figure
from sandbox import jars, rocketmq

OURS, JAVA = "Evenkeel", "DefaultMQPushConsumer"
BY_MESSAGE, BY_QUEUE = "by message", "by queue"
BALANCES: Mapping[str, Run] = {BY_MESSAGE: workers.run_by_message, BY_QUEUE: workers.run_by_queue}
IDLE, ALIKE, ONE_SLOW = "no work", "all alike", "one slow"
SCENES: Mapping[str, tuple[float, float]] = {
    IDLE: (0.0, 0.0),
    ALIKE: (workers.WORK_SECONDS, workers.WORK_SECONDS),
    ONE_SLOW: (workers.SLOW_SECONDS, workers.WORK_SECONDS),
}
"""How long the first worker needs for a message, and each of the others, in seconds."""
RATE_RATIO, CPU_RATIO = 1.5, 0.5
WORKERS_RATIO, MOST_UNEVEN_PERCENT = 7.0, 10.0
MOST_LATER_MS, SLOW_RATIO = 1.0, 1.2
"""How much later than a pull a pop may be, and what still counts as unchanged."""

Case = tuple[str, str]
"""A store, and how the work is balanced."""
DelayCase = tuple[str, str, str]
"""The same, and a scene."""


_MS, _SLOW_MS = 1000 * workers.WORK_SECONDS, 1000 * workers.SLOW_SECONDS
_WORDS = f"""\
One broker on the same machine, with each of the two stores for what is popped. Bodies
have {messages.BODY_BYTES:,} bytes. `pop` is the client alone, with {popping.AT_ONCE} pops of
{popping.BATCH} messages under way, each acknowledged at once. `handle` is a handler that does
nothing, of a follower with batches of {popping.BATCH}, or of {JAVA} in POP
mode with its defaults. `CPU us` is the client's CPU time per message. Programs take turns.
Figures are medians of the rounds; warm-up rounds are dropped.

Workers: {workers.WORKERS} members in one process need {_MS:g} ms for a message. The topic has
{workers.QUEUES} queues.

Delays: {workers.A_SECOND} messages a second for {workers.FEW_WORKERS} workers. By queue, each of
them has a queue. A delay is the time from the begin of a send until a handler has the message.
The workers need no time, or {_MS:g} ms for a message, and one of them {_SLOW_MS:g} ms. `others`
leaves out the slow one."""


@dataclass(frozen=True, slots=True)
class Row(Rounds):
    """The result of one program with one store."""

    store: str
    work: str
    program: str


def make_table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield all rows."""
    yield (
        f"{'store':<9}{'work':<8}{'program':<24}{'messages/s':>12}{'CPU us':>9}"
        f"{'slowest/s':>12}{'fastest/s':>12}"
    )
    for row in rows:
        yield (
            f"{row.store:<9}{row.work:<8}{row.program:<24}{row.rate:>12,.0f}{row.cpu_us:>9.1f}"
            f"{row.rates[0]:>12,.0f}{row.rates[-1]:>12,.0f}"
        )


def make_workers_table(worked: Mapping[Case, Worked]) -> Iterator[str]:
    """Yield what the workers did."""
    yield f"{'store':<9}{'workers':<12}{'messages/s':>12}{'fewest':>8}{'most':>8}"
    for (store, balance), found in worked.items():
        yield (
            f"{store:<9}{balance:<12}{found.rate:>12,.0f}{min(found.counts):>8,}"
            f"{max(found.counts):>8,}"
        )


def make_delays_table(delays: Mapping[DelayCase, Delays]) -> Iterator[str]:
    """Yield how long messages waited, in milliseconds."""
    yield f"{'store':<9}{'workers':<12}{'':<11}{'50 %':>9}{'99 %':>10}{'others, 99 %':>14}   (ms)"
    for (store, balance, scene), found in delays.items():
        others = found.find(0.99, first_worker=1)
        yield (
            f"{store:<9}{balance:<12}{scene:<11}{found.find(0.5):>9,.1f}{found.find(0.99):>10,.1f}"
            f"{others:>14,.1f}"
        )


def list_figures(
    rows: Sequence[Row], worked: Mapping[Case, Worked], delays: Mapping[DelayCase, Delays]
) -> Iterator[Figure]:
    """Compare our figures with the peer's, and by message with by queue."""
    for store in rocketmq.POP_STORES:
        [java] = [row for row in rows if (row.store, row.program) == (store, JAVA)]
        for row in rows:
            if (row.store, row.program) != (store, OURS):
                continue
            name = f"{store}, {row.work} / {JAVA}"
            yield Figure(name, row.rate, java.rate, RATE_RATIO)
            name = f"{store}, CPU per message, {row.work} / {JAVA}"
            yield Figure(name, row.cpu_us, java.cpu_us, CPU_RATIO, "us", at_least=False)
        popped, read = worked[store, BY_MESSAGE], worked[store, BY_QUEUE]
        name = f"{store}, {workers.WORKERS} workers, {BY_MESSAGE} / {BY_QUEUE}"
        yield Figure(name, popped.rate, read.rate, WORKERS_RATIO)
        name = f"{store}, a worker's messages beside the mean, at most"
        uneven = 100 * popped.unevenness
        yield Figure(name, uneven, None, MOST_UNEVEN_PERCENT, "%", at_least=False)
        later = [delays[store, each, IDLE].find(0.5) for each in BALANCES]
        name = f"{store}, half of all messages wait longer than by queue by"
        yield Figure(name, later[0] - later[1], None, MOST_LATER_MS, "ms", at_least=False)
        slow, alike = (
            delays[store, BY_MESSAGE, each].find(0.99, first_worker=1) for each in (ONE_SLOW, ALIKE)
        )
        name = f"{store}, beside a slow worker, 99 % / all workers alike"
        yield Figure(name, slow, alike, SLOW_RATIO, "ms", at_least=False)


def format_page(body: Sequence[str], figures: Iterable[Figure]) -> str:
    """Make the results page, which is committed."""
    java = page.ask_program(str(jars.find_java()), "-version")
    return page.format_page(
        "Single messages, compared with RocketMQ's own consumer",
        [
            f"Python {platform.python_version()}; Java: {java}, heap {HEAP}",
            f"Broker: RocketMQ {rocketmq.VERSION}, heap {stage.HEAP}",
            f"Peer: {peers.ROCKETMQ}",
            "`make bench-messages`",
        ],
        _WORDS,
        body,
        map(targets.format_cells, figures),
    )
