"""A shop in which numbered messages keep arriving, so that each one can be counted."""

from pathlib import Path

from sandbox.node import SandboxNode
from sandbox.node.shop import TOPICS, Shop, ShopGroup, wait_patiently
from sandbox.statuses import Document, list_owned
from tests.e2e.checked_members import CheckedMembers
from tests.real.numbers import Numbers, arrived

MANIFESTS = Path(__file__).with_name("manifests")
GROUP, FLOW, POPPING, TOPIC = "billing", "flow", "popping", "orders"
OF_MEMBERS, PARCELS = "shipping", "parcels"
BY_MESSAGE, LETTERS = "sorting", "letters"


class CheckedShop(Shop):
    """
    A shop with groups whose jobs read one topic, and groups whose members read others.

    One of these is balanced by message.
    """

    def __init__(self, node: SandboxNode, folder: Path) -> None:
        """Install nothing yet."""
        super().__init__(node, folder)
        self.group = ShopGroup(self, GROUP)
        self.flow, self.popping = ShopGroup(self, FLOW), ShopGroup(self, POPPING)
        self.members = CheckedMembers(self, OF_MEMBERS, PARCELS)
        self.poppers = CheckedMembers(self, BY_MESSAGE, LETTERS)
        self._numbers: Numbers | None = None

    def apply_file(self, manifest: str) -> None:
        """Apply a manifest of this folder."""
        self.apply((MANIFESTS / manifest).read_text())

    def begin_numbers(self) -> None:
        """Begin to send numbered messages."""
        self._numbers = Numbers(self.name_server(), TOPIC)
        self._numbers.__enter__()

    def end_numbers(self) -> None:
        """Stop sending."""
        if self._numbers is not None:
            self._numbers.stop()

    def check(self) -> Document:
        """Check that each queue is read by its only owner; no message is lost or duplicated."""
        status = self._check_owners(self.group)
        before = self._wait_for_a_batch()
        self.check_numbers(GROUP)
        report = self.group.report()
        assert report["misplacedTasks"] == before["misplacedTasks"], (
            "tasks run on the owners of their queues", before, report
        )  # fmt: skip
        _check_rows(report)
        return status

    def check_flow(self, since: int = 0) -> Document:
        """Check the same for the job that runs as a flow, for numbers from `since` on."""
        status = self._check_owners(self.flow)
        self.check_numbers(FLOW, since)
        _check_rows(self.flow.report())
        return status

    @property
    def sent(self) -> int:
        """How many numbers have been sent so far."""
        assert self._numbers is not None
        assert self._numbers.is_sending, "numbers are still sent"
        return self._numbers.sent

    def check_numbers(self, job: str, since: int = 0, *, may_double: bool = False) -> None:
        """Check that each number from `since` on arrives in the sink of a job, and only once."""
        assert self._numbers is not None
        sure = set(range(since, self.sent)) - self._numbers.unsure
        rows = self.folder / job
        found = wait_patiently(lambda: arrived(rows), lambda it: sure <= it.keys())
        lost = sure - found.keys()
        doubled = {number for number, count in found.items() if count > 1}
        assert not lost, f"lost {sorted(lost)[:9]}"
        assert may_double or not doubled, f"doubled {doubled}"

    def _check_owners(self, group: ShopGroup) -> Document:
        status = wait_patiently(group.wait_until_settled, self._is_owned_once)
        assert self._is_owned_once(status), (status, self._queues())
        return status

    def _wait_for_a_batch(self) -> Document:
        """Wait until the current batch has ended. It can still have tasks of a lost executor."""
        batch = self.group.report()["batch"]
        return wait_patiently(self.group.report, lambda it: it.get("batch", -1) > batch)

    def _is_owned_once(self, status: Document) -> bool:
        return sorted(queue for _, queue in list_owned(status)) == self._queues()

    def _queues(self) -> list[tuple[str, int]]:
        brokers = self.read_status(TOPICS, TOPIC)["brokers"]
        return sorted(
            (each["broker"], number) for each in brokers for number in range(each["readQueues"])
        )


def _check_rows(report: Document) -> None:
    assert sum(report["rows"].values()) == report["offsets"], "each offset read gave a row"
