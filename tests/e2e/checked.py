"""A shop whose messages have numbers and keep arriving: each is counted, whatever happens."""

from pathlib import Path

from sandbox.node import SandboxNode
from sandbox.node.shop import TOPICS, Shop, ShopGroup, wait_patiently
from sandbox.statuses import Document, list_owned
from tests.real.numbers import Numbers, arrived

MANIFESTS = Path(__file__).with_name("manifests")
GROUP, TOPIC = "billing", "orders"


class CheckedShop(Shop):
    """It has one group that reads one topic."""

    def __init__(self, node: SandboxNode, folder: Path) -> None:
        """Nothing is installed yet."""
        super().__init__(node, folder)
        self.group = ShopGroup(self, GROUP)
        self._numbers: Numbers | None = None

    def apply_file(self, manifest: str) -> None:
        """Apply a manifest of this folder."""
        self.apply((MANIFESTS / manifest).read_text())

    def begin_numbers(self) -> None:
        """Send numbered messages all the time from now on."""
        self._numbers = Numbers(self.name_server(), TOPIC)
        self._numbers.__enter__()

    def end_numbers(self) -> None:
        """Send no more."""
        if self._numbers is not None:
            self._numbers.stop()

    def check(self) -> Document:
        """Every queue owned once, read where the epoch says; lost 0, duplicated 0, no gap."""
        status = wait_patiently(self.group.wait_until_settled, self._is_owned_once)
        assert self._is_owned_once(status), (status, self._queues())
        astray = self.group.report()["misplacedTasks"]
        self.check_numbers(GROUP)
        report = self.group.report()
        assert report["misplacedTasks"] == astray, "tasks run where the epoch says"
        assert sum(report["rows"].values()) == report["offsets"], "each offset read gave a row"
        return status

    @property
    def sent(self) -> int:
        """How many numbers were sent until now."""
        assert self._numbers is not None
        assert self._numbers.is_sending, "the numbers go on"
        return self._numbers.sent

    def check_numbers(self, job: str, since: int = 0) -> None:
        """What was sent from a number on arrives in the sink of a job, and nothing twice."""
        assert self._numbers is not None
        sure = set(range(since, self.sent)) - self._numbers.unsure
        rows = self.folder / job
        found = wait_patiently(lambda: arrived(rows), lambda it: sure <= it.keys())
        lost = sure - found.keys()
        doubled = {number for number, count in found.items() if count > 1}
        assert (len(lost), len(doubled)) == (0, 0), f"lost {sorted(lost)[:9]}, doubled {doubled}"

    def _is_owned_once(self, status: Document) -> bool:
        return sorted(queue for _, queue in list_owned(status)) == self._queues()

    def _queues(self) -> list[tuple[str, int]]:
        brokers = self.read_status(TOPICS, TOPIC)["brokers"]
        return sorted(
            (each["broker"], number) for each in brokers for number in range(each["readQueues"])
        )
