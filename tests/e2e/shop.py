"""
A shop on a real node: RocketMQ, the operator, a group with a job, and messages that keep arriving.

It does what people do, with kubectl and helm, and knows when all is as it should be again.
"""

import json
import subprocess
from pathlib import Path

from lb_core.assignment import parse_ids
from sandbox import go, programs
from sandbox.node import Node
from sandbox.waiting import eventually
from tests.real.cluster.running import Document, Namespace, condition
from tests.real.numbers import Numbers, arrived

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "evenkeel"
MANIFESTS = Path(__file__).with_name("manifests")
RELEASE, SHOP, BROKERS = "evenkeel", "shop", "mq"
GROUPS, GROUP, TOPIC = "consumergroups", "billing", "orders"
DRIVER = f"{GROUP}-driver"
EXECUTORS = f"evenkeel.dev/group={GROUP},spark-role=executor"
PATIENCE_SECONDS = 240.0
QUICK_LEASE = 'lease={"duration": 5, "deadline": 3, "period": 1}'

Queue = tuple[str, int]


class Shop:
    """All of it, and what may be done to it."""

    def __init__(self, node: Node, folder: Path) -> None:
        """Nothing is installed yet."""
        self.node = node
        self.objects = Namespace(SHOP, node.admin)
        self.folder = folder
        self._numbers: Numbers | None = None

    def kubectl(self, *words: str, told: str = "") -> str:
        """Run kubectl as an admin; what it said."""
        return self._run(programs.KUBECTL, *words, told=told)

    def helm(self, *words: str) -> str:
        """Run helm as an admin; what it said."""
        return self._run(programs.HELM, "--namespace", RELEASE, *words)

    def patch(self, plural: str, name: str, spec: Document) -> None:
        """Change one of our objects."""
        change = json.dumps({"spec": spec})
        self.kubectl("-n", SHOP, "patch", plural, name, "--type=merge", "--patch", change)

    def apply(self, manifest: str) -> None:
        """Apply a manifest of this folder."""
        text = (MANIFESTS / manifest).read_text().replace("FOLDER", str(self.folder))
        self.kubectl("-n", SHOP, "apply", "-f", "-", told=text)

    def pods(self, selector: str, namespace: str = SHOP) -> list[Document]:
        """List the pods with a label that are not being deleted."""
        path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}"
        items: list[Document] = self.node.admin.ask("GET", path).body["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def executors(self) -> dict[str, str]:
        """Tell which pod fills which slot, by slot."""
        found = self.status()["assignments"]
        return {each["consumer"]: each["pod"] for each in found if each.get("pod")}

    def status(self) -> Document:
        """Read the status of the group."""
        return self.objects.status(GROUPS, GROUP)

    def report(self) -> Document:
        """Read what the driver reports."""
        found = self.objects.found(self.objects.core("configmaps", DRIVER)) or {}
        report: Document = json.loads(found.get("data", {}).get("report.json", "{}"))
        return report

    def begin_numbers(self) -> None:
        """Send numbered messages all the time from now on."""
        service = self.objects.user.ask(
            "GET", f"/api/v1/namespaces/{BROKERS}/services/rocketmq-namesrv"
        )
        self._numbers = Numbers(f"{service.body['spec']['clusterIP']}:9876", TOPIC)
        self._numbers.__enter__()

    def end_numbers(self) -> None:
        """Send no more."""
        if self._numbers is not None:
            self._numbers.stop()

    def until_settled(self) -> Document:
        """Wait until the job runs and follows the newest epoch with all its slots filled."""
        return self.objects.until(GROUPS, GROUP, _is_settled, PATIENCE_SECONDS)

    def check(self) -> Document:
        """Every queue owned once, read where the epoch says; lost 0, duplicated 0."""
        status = self.until_settled()
        assert sorted(owned(status)) == self.queues(), status
        astray = self.report()["misplacedTasks"]
        self.check_numbers("billing")
        assert self.report()["misplacedTasks"] == astray, "tasks run where the epoch says"
        return status

    def queues(self) -> list[Queue]:
        """List the queues of the topic, as its status tells them."""
        brokers = self.objects.status("topics", TOPIC)["brokers"]
        return sorted(
            (each["broker"], number) for each in brokers for number in range(each["readQueues"])
        )

    def check_numbers(self, job: str) -> None:
        """What was sent until now arrives in the sink of a job, once."""
        numbers = self._numbers
        assert numbers is not None
        assert numbers.is_sending, "the numbers go on"
        sure = set(range(numbers.sent)) - numbers.unsure
        rows = self.folder / job
        found = eventually(lambda: arrived(rows), lambda it: sure <= it.keys(), PATIENCE_SECONDS)
        lost = sure - found.keys()
        doubled = {number for number, count in found.items() if count > 1}
        assert (len(lost), len(doubled)) == (0, 0), f"lost {sorted(lost)[:9]}, doubled {doubled}"

    def _run(self, program: go.Program, *words: str, told: str = "") -> str:
        command = [str(go.built(program)), "--kubeconfig", str(self.node.admin.kubeconfig), *words]
        done = subprocess.run(command, input=told, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{program.name} {' '.join(words)}: {done.stderr}{done.stdout}"
        return done.stdout


def owned(status: Document) -> list[Queue]:
    """List all queues that consumers own, one as often as it is owned."""
    return [
        (part["broker"], number)
        for each in status["assignments"]
        for part in each.get("queues") or ()
        for found in parse_ids(part["topic"], part["broker"], part["ids"])
        for number in range(found.start, found.stop)
    ]


def owners(status: Document) -> Document:
    """Tell who owns what."""
    return {each["consumer"]: each.get("queues", []) for each in status["assignments"]}


def _is_settled(status: Document) -> bool:
    return (
        condition(status, "Ready") == ("True", "Running")
        and status["adoptedEpoch"] == status["epoch"]
        and all(each.get("pod") for each in status["assignments"])
    )
