"""Watch the memory of an application under a steady load."""

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.spark import processes
from benchmarks.spark.processes import Kind

WARM_UP_MINUTES = 2
_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Held:
    """The highest total memory of the processes of a kind, within a minute."""

    first_mib: float
    """The highest value in the minute after the warm-up."""
    last_mib: float
    processes: int
    heap: str


def watch(root: int, minutes: float) -> Mapping[Kind, Held]:
    """Watch the application of a driver for some minutes."""
    begun = time.monotonic()
    samples: list[tuple[float, Mapping[Kind, list[processes.Process]]]] = []
    while (now := time.monotonic() - begun) < minutes * 60:
        by_kind: dict[Kind, list[processes.Process]] = defaultdict(list)
        for process in processes.list_below(root):
            by_kind[process.kind].append(process)
        samples.append((now / 60, by_kind))
        time.sleep(_PAUSE_SECONDS)

    def find_most(kind: Kind, since: float) -> float:
        sums = [
            sum(process.rss_mib for process in by_kind[kind])
            for minute, by_kind in samples
            if since <= minute < since + 1
        ]
        return max(sums)

    _, at_last = samples[-1]
    return {
        kind: Held(
            find_most(kind, WARM_UP_MINUTES),
            find_most(kind, minutes - 1),
            len(found),
            found[0].heap,
        )
        for kind in Kind
        if (found := at_last.get(kind))
    }
