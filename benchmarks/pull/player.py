"""
Measure jobs of a Python program: one job per input line, one JSON line per answer.

A job is a line `WORK TOPIC QUEUES MESSAGES`. WORK names a function that prepares the job and
returns a second function. Only the call of the second function is measured; it returns how many
messages it has moved. The garbage collector is on, as in production.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple


class Job(NamedTuple):
    """The messages to move: all of a topic, spread evenly over its queues."""

    topic: str
    queues: int
    messages: int

    @property
    def messages_a_queue(self) -> int:
        """How many messages each queue has."""
        return self.messages // self.queues


Work = Callable[[Job], Callable[[], int]]


def play(works: Mapping[str, Work]) -> None:
    """Run the jobs of standard input until it ends."""
    for line in sys.stdin:
        name, topic, queues, messages = line.split()
        run = works[name](Job(topic, int(queues), int(messages)))
        cpu, begun = _cpu_seconds(), time.perf_counter()
        moved = run()
        seconds, cpu_seconds = time.perf_counter() - begun, _cpu_seconds() - cpu
        facts = {"messages": moved, "seconds": seconds, "cpu_seconds": cpu_seconds}
        print(json.dumps({**facts, "rss_mib": _rss_mib()}), flush=True)


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
