"""
Divides the tests between two processes (pytest-xdist), which take one file at a time.

One process begins with the tests of Spark, the other with those of the operator, and they meet at
the short tests. So each process keeps its servers, and neither process waits long for the other.
"""

from collections.abc import Iterable

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

FIRST = ("tests/real/spark",)
LAST = ("tests/images", "tests/real/monitoring", "tests/real/cluster")
TOGETHER = ("tests/images",)
"""Folders whose files go to one process, because it builds images under fixed names."""


class FromTwoEnds(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Gives files from the start of the list to one process, and from its end to the other."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        """Keep the order of the list."""
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return next((each for each in TOGETHER if nodeid.startswith(each)), nodeid.split("::")[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        if int(node.gateway.id.removeprefix("gw")) % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Put the tests that take long at both ends."""
    return sorted(items, key=_place)


def _place(item: pytest.Item) -> int:
    for number, folder in enumerate(FIRST):
        if item.nodeid.startswith(folder):
            return number - len(FIRST)
    for number, folder in enumerate(LAST, 1):
        if item.nodeid.startswith(folder):
            return number
    return 0
