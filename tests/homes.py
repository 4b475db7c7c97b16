"""
Divides the tests among three processes (pytest-xdist), which take one file at a time.

Most tests of real parts wait more than they compute, so there is one process more than cores. Each
begins at its home: folders whose tests share servers that take long to start. Then it takes the
short tests, which have no home, and in the end what is left at another one.
"""

from typing import Any

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

HOMES = (
    ("tests/real/spark",),
    ("tests/real/cluster", "tests/real/monitoring", "tests/images"),
    ("tests/real",),
)
"""A folder belongs to the first home that names it, or a folder around it."""
TOGETHER = ("tests/images",)
"""Folders whose files go to one process, because it builds images under fixed names."""


class FromHomes(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Gives each process the files of its home first."""

    def __init__(self, config: Any, log: Any = None) -> None:
        """Keep the order of the files."""
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return next((each for each in TOGETHER if nodeid.startswith(each)), nodeid.split("::")[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        home = int(node.gateway.id.removeprefix("gw")) % len(HOMES)
        self.workqueue.move_to_end(choose(list(self.workqueue), home), last=False)
        super()._assign_work_unit(node)


def choose(files: list[str], home: int) -> str:
    """Choose the next file for the process of a home."""
    for wanted in (home, None):
        found = next((each for each in files if find_home(each) == wanted), None)
        if found is not None:
            return found
    return files[-1]


def find_home(file: str) -> int | None:
    """Find the number of a file's home."""
    for number, folders in enumerate(HOMES):
        if any(file == each or file.startswith(f"{each}/") for each in folders):
            return number
    return None
