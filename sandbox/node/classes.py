"""
Records the classes that drivers and executors load: `python -m sandbox.node.classes FILE`.

Spark's image has an archive of these classes (`images/spark/archive`). The list is recorded while a
job runs on a node, from the start of the job to its end. Another version of Spark or Java needs
another list.
"""

import gzip
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from mq_client.blocking import Client
from mq_client.choosers import RoundRobin
from mq_client.messages import Message
from sandbox import sinks
from sandbox.node.shop import (
    GROUPS,
    PATIENTLY,
    SHOP,
    Shop,
    ShopError,
    ShopGroup,
    open_shop,
    wait_patiently,
)

_JOB = Path(__file__).with_name("classes.yaml")
_GROUP = "classes"
_BATCHES = 3
_LISTS = ("driver.classes", "executor.classes")


def main() -> int:
    """Record the classes into a file."""
    with open_shop() as shop:
        lines = sorted(set(_select(_record(shop))))
    # A lambda must come after the class that contains it.
    lines.sort(key=lambda line: line.startswith("@"))
    Path(sys.argv[1]).write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    print(f"{len(lines):,} lines")
    return 0


def _record(shop: Shop) -> Iterator[str]:
    shop.apply(_JOB.read_text())
    ShopGroup(shop, _GROUP).wait_until_settled()
    with Client(shop.name_server()) as client:
        for _ in range(_BATCHES):
            _write_a_batch(client, shop.folder / _GROUP)
    shop.kubectl("-n", SHOP, "delete", GROUPS, _GROUP, PATIENTLY)
    for name in _LISTS:
        yield from (shop.folder / name).read_text().splitlines(keepends=True)


def _write_a_batch(client: Client, rows: Path) -> None:
    before = len(sinks.list_finished(rows))
    client.send([Message(_GROUP, b"%d" % number) for number in range(100)], RoundRobin())
    if wait_patiently(lambda: len(sinks.list_finished(rows)), before.__lt__) == before:
        raise ShopError(f"{_GROUP}: there is no batch")


def _select(lines: Iterable[str]) -> Iterator[str]:
    """Select the classes of Java's own loaders: lines of other loaders have a `source`."""
    for line in lines:
        if not line.startswith("#") and " source: " not in line:
            yield line.partition(" id: ")[0].rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main())
