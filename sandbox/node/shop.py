"""
Runs a whole installation, called a shop, on a node: RocketMQ, the operator, groups with jobs.

    it = shop.Shop(node, folder)
    it.install("--set", "replicas=2")
    it.start_rocketmq()
    group = shop.ShopGroup(it, "billing")
    it.apply(manifests)
    group.wait_until_settled()
"""

import contextlib
import http
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from contract import names
from contract.conditions import ConditionReason, ConditionType
from mq_client import blocking
from mq_client.errors import MqError
from sandbox import go, node, process, programs
from sandbox.node import SandboxNode
from sandbox.statuses import Document, read_condition
from sandbox.waiting import Value, wait_for

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "evenkeel"
RELEASE, SHOP, BROKERS = "evenkeel", "shop", "mq"
BROKERS_COUNT = 2
BROKER = "rocketmq-broker-0"
"""The broker that `kill_broker` kills, and the name of its pod."""
_BROKER_PODS = "app=rocketmq-broker"
GROUPS, TOPICS = "consumergroups", "topics"
OPERATORS = "app.kubernetes.io/name=evenkeel"
PATIENCE_SECONDS = 600.0
LOOK_SECONDS = 0.25
PATIENTLY = f"--timeout={PATIENCE_SECONDS:.0f}s"
"""An option that gives kubectl and helm a long timeout, because a machine may be slow."""
STATE = Path(__file__).with_name("state.yaml")


class ShopError(process.SandboxError):
    """A request was refused, or an expected event did not happen in time."""


def wait_patiently(
    look: Callable[[], Value],
    is_right: Callable[[Value], bool],
    patience_seconds: float = PATIENCE_SECONDS,
) -> Value:
    """Wait longer and look less often than `wait_for`, because the machine is busy."""
    return wait_for(look, is_right, patience_seconds, LOOK_SECONDS)


class Shop:
    """One installation of RocketMQ, the operator and groups, with commands to change it."""

    def __init__(self, node: SandboxNode, folder: Path) -> None:
        """Install nothing yet. Pods store their data in the folder."""
        self.node = node
        self.folder = folder

    def kubectl(self, *words: str, stdin: str = "") -> str:
        """Run kubectl as admin; return its output."""
        return self._run(programs.KUBECTL, *words, stdin=stdin)

    def helm(self, *words: str) -> str:
        """Run helm as admin; return its output."""
        return self._run(programs.HELM, "--namespace", RELEASE, *words)

    def install(self, *options: str) -> None:
        """Install the chart, and wait until the operator is ready."""
        self.helm(
            "install", RELEASE, str(CHART), "--create-namespace", "--wait", PATIENTLY,
            *options,
        )  # fmt: skip

    def start_rocketmq(self) -> None:
        """Start a name server and two brokers."""
        self.kubectl("create", "namespace", BROKERS)
        self.kubectl("-n", BROKERS, "apply", "-f", str(ROOT / "examples" / "rocketmq"))
        self.roll_out(BROKERS, "deployment/rocketmq-namesrv")
        self.await_brokers()

    def open(self) -> None:
        """Create a namespace for groups, with a volume claim."""
        self.kubectl("create", "namespace", SHOP)
        self.apply(STATE.read_text().replace("FOLDER", str(self.folder)))

    def await_brokers(self) -> None:
        """Wait until all brokers are ready, and the name server knows them."""
        self.roll_out(BROKERS, "statefulset/rocketmq-broker")
        with blocking.Client(self.name_server()) as client:
            known = wait_patiently(lambda: _count_brokers(client), lambda it: it >= BROKERS_COUNT)
        if known < BROKERS_COUNT:
            raise ShopError(f"the name server knows {known} of {BROKERS_COUNT} brokers")

    def renew_brokers(self) -> None:
        """Replace the brokers by new ones, which are empty and were never restarted."""
        before = self._list_broker_ids()
        # A kubectl that waits for the end of pods may wait for ever if others have their names.
        self.kubectl("-n", BROKERS, "delete", "pod", f"--selector={_BROKER_PODS}", "--wait=false")
        if wait_patiently(lambda: before & self._list_broker_ids(), lambda left: not left):
            raise ShopError("Kubernetes has not replaced the pods of the brokers")
        self.await_brokers()

    def kill_broker(self) -> None:
        """Kill a broker, and wait until Kubernetes has restarted it."""
        self.restart_by_kill(BROKERS, BROKER)
        self.await_brokers()

    def restart_by_kill(self, namespace: str, pod: str) -> None:
        """Kill the first container of a pod, and wait until Kubernetes has restarted it."""
        before = self._count_restarts(namespace, pod)
        self.node.faults.kill(namespace, pod)
        restarts = wait_patiently(
            lambda: self._count_restarts(namespace, pod), lambda now: now > before
        )
        if restarts == before:
            raise ShopError(f"{pod} was killed, and Kubernetes has not restarted it")

    def roll_out(self, namespace: str, what: str) -> None:
        """Wait until a rollout is complete."""
        self.kubectl("-n", namespace, "rollout", "status", what, PATIENTLY)

    def name_server(self) -> str:
        """Find the name server's address, for this machine and for pods."""
        path = f"/api/v1/namespaces/{BROKERS}/services/rocketmq-namesrv"
        service = self.node.admin.ask("GET", path)
        return f"{service.body['spec']['clusterIP']}:9876"

    def apply(self, manifests: str) -> None:
        """Apply manifests in the namespace of the shop."""
        self.kubectl("-n", SHOP, "apply", "-f", "-", stdin=manifests)

    def patch(self, plural: str, name: str, spec: Document) -> None:
        """Change one of our objects."""
        change = json.dumps({"spec": spec})
        self.kubectl("-n", SHOP, "patch", plural, name, "--type=merge", "--patch", change)

    def read_status(self, plural: str, name: str) -> Document:
        """Read the status of one of our objects; empty if it has none yet."""
        path = f"/apis/{names.API_VERSION}/namespaces/{SHOP}/{plural}/{name}"
        answer = self.node.admin.ask("GET", path)
        if answer.status == http.HTTPStatus.NOT_FOUND:
            return {}
        found: Document = answer.body.get("status") or {}
        return found

    def wait_until(self, plural: str, name: str, is_right: Callable[[Document], bool]) -> Document:
        """Wait until `is_right` accepts the status of an object."""
        seen = wait_patiently(lambda: self.read_status(plural, name), is_right)
        if not is_right(seen):
            raise ShopError(
                f"{plural}/{name} has the wrong status after {PATIENCE_SECONDS:g} s: {seen}"
            )
        return seen

    def wait_until_made(self, topic: str) -> None:
        """Wait until a topic is provisioned on all brokers."""
        self.wait_until(
            TOPICS, topic, lambda it: read_condition(it, ConditionType.READY)[0] == "True"
        )

    def list_pods(self, selector: str, namespace: str = SHOP) -> list[Document]:
        """List the pods that a label selector selects, without those that are being deleted."""
        pods = self._list_all_pods(selector, namespace)
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def _list_broker_ids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self._list_all_pods(_BROKER_PODS, BROKERS)}

    def _list_all_pods(self, selector: str, namespace: str) -> list[Document]:
        path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}"
        items: list[Document] = self.node.admin.ask("GET", path).body["items"]
        return items

    def _count_restarts(self, namespace: str, pod: str) -> int:
        found = self.node.admin.ask("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}").body
        return sum(each["restartCount"] for each in found["status"]["containerStatuses"])

    def _run(self, program: go.GoProgram, *words: str, stdin: str = "") -> str:
        command = [str(go.build(program)), "--kubeconfig", str(self.node.admin.kubeconfig), *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode:
            said = f"{done.stderr}{done.stdout}"
            raise ShopError(f"{program.name} {' '.join(words)}: {said}")
        return done.stdout


@contextlib.contextmanager
def open_shop(*options: str) -> Iterator[Shop]:
    """
    Run a shop on its own node until the block ends. The block can create groups in it.

    The options are those of helm.
    """
    with process.make_folder("evenkeel-shop-") as place, node.run() as on:
        place.path.chmod(0o777)  # so that pods of any user can write to it
        shop = Shop(on, place.path)
        shop.install(*options)
        shop.start_rocketmq()
        shop.open()
        yield shop


class ShopGroup:
    """A group with a job in a shop. It may not exist yet."""

    def __init__(self, shop: Shop, name: str) -> None:
        """Refer to the group by its name."""
        self.shop = shop
        self.name = name
        self.driver = names.name_driver(name)
        self.executor_pods = names.select_executors(name)
        self.driver_pods = f"{names.GROUP_LABEL}={name},{names.ROLE_LABEL}={names.DRIVER}"

    def read_status(self) -> Document:
        """Read the group's status."""
        return self.shop.read_status(GROUPS, self.name)

    def report(self) -> Document:
        """Read the report of the group's driver."""
        path = f"/api/v1/namespaces/{SHOP}/configmaps/{self.driver}"
        found = self.shop.node.admin.ask("GET", path).body
        report: Document = json.loads(found.get("data", {}).get(names.REPORT, "{}"))
        return report

    def find_executors(self) -> dict[str, str]:
        """Find the pod that fills each slot."""
        found = self.read_status()["assignments"]
        return {each["consumer"]: each["pod"] for each in found if each.get("pod")}

    def scale(self, executors: int) -> None:
        """Scale to this number of executors."""
        self.shop.kubectl("-n", SHOP, "scale", GROUPS, self.name, f"--replicas={executors}")

    def wait_until(self, is_right: Callable[[Document], bool]) -> Document:
        """Wait until `is_right` accepts the group's status."""
        return self.shop.wait_until(GROUPS, self.name, is_right)

    def wait_until_settled(self) -> Document:
        """Wait until the job runs, follows the newest epoch, and has filled all its slots."""
        return self.wait_until(_is_settled)

    def wait_until_settled_with(self, slots: int, since: Document) -> Document:
        """Wait until a newer epoch than in `since` has this number of slots and is settled."""
        self.wait_until(lambda it: it["epoch"] > since["epoch"] and len(it["assignments"]) == slots)
        return self.wait_until_settled()

    def wait_until_replaced(self, slot: str, pod: str) -> None:
        """Wait until another pod fills a slot."""
        found = wait_patiently(lambda: self.find_executors().get(slot, pod), lambda it: it != pod)
        if found == pod:
            raise ShopError(f"{self.name}: {pod} still fills {slot}")

    def wait_for_another_driver(self, before: str) -> None:
        """Wait until a driver other than this one reports."""
        now = wait_patiently(lambda: self.report().get("driver", before), lambda it: it != before)
        if now == before:
            raise ShopError(f"{self.name}: no driver other than {before} reports")


def _count_brokers(client: blocking.Client) -> int:
    """Count the brokers that the name server knows; 0 if it does not answer."""
    try:
        return len(client.list_brokers().brokers)
    except MqError:
        return 0


def _is_settled(status: Document) -> bool:
    return (
        read_condition(status, ConditionType.READY) == ("True", ConditionReason.RUNNING)
        and status["adoptedEpoch"] == status["epoch"]
        and all(each.get("pod") for each in status["assignments"])
    )
