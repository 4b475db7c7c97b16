"""Formats the results as tables, as figures with their targets, and as a page."""

import platform
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import page, peers, targets
from benchmarks.messages import popping, workers
from benchmarks.messages.workers import Worked
from benchmarks.pull import messages, stage
from benchmarks.pull.programs import HEAP, Rounds
from benchmarks.targets import Figure
from sandbox import jars, rocketmq

OURS, JAVA = "Evenkeel", "DefaultMQPushConsumer"
BY_MESSAGE, BY_QUEUE = "by message", "by queue"
RATE_RATIO, CPU_RATIO = 1.5, 0.5
WORKERS_RATIO, MOST_UNEVEN_PERCENT = 7.0, 10.0


@dataclass(frozen=True, slots=True)
class Row(Rounds):
    """The result of one program with one store."""

    store: str
    work: str
    program: str

    @property
    def cpu_us(self) -> float:
        """CPU time of the client per message, in microseconds."""
        return statistics.median(each.cpu_seconds / each.messages * 1e6 for each in self.rounds)


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


def make_workers_table(worked: Mapping[tuple[str, str], Worked]) -> Iterator[str]:
    """Yield what the workers did."""
    yield f"{'store':<9}{'workers':<12}{'messages/s':>12}{'fewest':>8}{'most':>8}"
    for (store, balance), found in worked.items():
        yield (
            f"{store:<9}{balance:<12}{found.rate:>12,.0f}{min(found.counts):>8,}"
            f"{max(found.counts):>8,}"
        )


def list_figures(rows: Sequence[Row], worked: Mapping[tuple[str, str], Worked]) -> Iterator[Figure]:
    """Compare each of our rows with the peer's."""
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
        f"One broker on the same machine, with each of the two stores for what is popped. Bodies\n"
        f"have {messages.BODY_BYTES:,} bytes. `pop` is the client alone, with {popping.AT_ONCE}\n"
        f"pops of {popping.BATCH} messages under way, each acknowledged at once. `handle` is a\n"
        f"handler that does nothing, of a follower with batches of {popping.BATCH}, or of\n"
        f"{JAVA} in POP mode with its defaults. `CPU us` is the client's CPU time per message.\n"
        "Programs take turns. Figures are medians of the rounds; warm-up rounds are dropped.\n\n"
        f"Workers: {workers.WORKERS} members in one process need\n"
        f"{1000 * workers.WORK_SECONDS:g} ms for a message. The topic has {workers.QUEUES} queues.",
        body,
        map(targets.format_cells, figures),
    )
