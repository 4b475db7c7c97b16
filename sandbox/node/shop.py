"""
A shop on a node: RocketMQ, the operator, and groups with jobs, as people bring them up.

    it = shop.Shop(node, folder)
    it.install("--set", "replicas=2")
    it.start_rocketmq()
    group = shop.Group(it, "billing")
    it.apply(manifests)
    group.until_settled()
"""

import contextlib
import http
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from contract import names
from contract.conditions import ConditionReason, ConditionType
from sandbox import go, node, process, programs
from sandbox.node import Node
from sandbox.statuses import Document, condition
from sandbox.waiting import Value, eventually

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "evenkeel"
RELEASE, SHOP, BROKERS = "evenkeel", "shop", "mq"
_BROKER = "rocketmq-broker-0"
GROUPS, TOPICS = "consumergroups", "topics"
OPERATORS = "app.kubernetes.io/name=evenkeel"
PATIENCE_SECONDS = 240.0
LOOK_SECONDS = 0.25
ROLLED_OUT = "--timeout=120s"
STATE = Path(__file__).with_name("state.yaml")


class ShopError(process.SandboxError):
    """Something that was asked for was refused, or did not come about."""


def in_time(
    look: Callable[[], Value],
    is_right: Callable[[Value], bool],
    patience_seconds: float = PATIENCE_SECONDS,
) -> Value:
    """Look until it is right, not often: what is looked at is on this machine."""
    return eventually(look, is_right, patience_seconds, LOOK_SECONDS)


class Shop:
    """All of it, and what may be done to it."""

    def __init__(self, node: Node, folder: Path) -> None:
        """Nothing is installed yet; what pods keep, they keep in the folder."""
        self.node = node
        self.folder = folder

    def kubectl(self, *words: str, told: str = "") -> str:
        """Run kubectl as an admin; what it said."""
        return self._run(programs.KUBECTL, *words, told=told)

    def helm(self, *words: str) -> str:
        """Run helm as an admin; what it said."""
        return self._run(programs.HELM, "--namespace", RELEASE, *words)

    def install(self, *options: str) -> None:
        """Install the chart, and wait until the operator is there."""
        self.helm(
            "install", RELEASE, str(CHART), "--create-namespace", "--wait", "--timeout=120s",
            *options,
        )  # fmt: skip

    def start_rocketmq(self) -> None:
        """Have a name server and two brokers."""
        self.kubectl("create", "namespace", BROKERS)
        self.kubectl("-n", BROKERS, "apply", "-f", str(ROOT / "examples" / "rocketmq"))
        self.roll_out(BROKERS, "deployment/rocketmq-namesrv")
        self.await_brokers()

    def open(self) -> None:
        """Have a namespace for groups, with a claim for what they keep."""
        self.kubectl("create", "namespace", SHOP)
        self.apply(STATE.read_text().replace("FOLDER", str(self.folder)))

    def await_brokers(self) -> None:
        """Wait until all brokers are there."""
        self.roll_out(BROKERS, "statefulset/rocketmq-broker")

    def renew_brokers(self) -> None:
        """Have brokers that hold nothing, and that Kubernetes has never had to start again."""
        self.kubectl("-n", BROKERS, "delete", "pod", "--selector=app=rocketmq-broker")
        self.await_brokers()

    def kill_broker(self) -> None:
        """Kill one of the brokers, and wait until Kubernetes has started it again."""
        before = self._restarts(_BROKER)
        self.node.faults.kill(BROKERS, _BROKER)
        if in_time(lambda: self._restarts(_BROKER), lambda now: now > before) == before:
            raise ShopError(f"{_BROKER} was killed, and nobody has noticed")
        self.await_brokers()

    def roll_out(self, namespace: str, what: str) -> None:
        """Wait until pods are as they should be."""
        self.kubectl("-n", namespace, "rollout", "status", what, ROLLED_OUT)

    def name_server(self) -> str:
        """Tell its address, for this machine and for pods."""
        path = f"/api/v1/namespaces/{BROKERS}/services/rocketmq-namesrv"
        service = self.node.admin.ask("GET", path)
        return f"{service.body['spec']['clusterIP']}:9876"

    def apply(self, manifests: str) -> None:
        """Apply manifests in the namespace of the shop."""
        self.kubectl("-n", SHOP, "apply", "-f", "-", told=manifests)

    def patch(self, plural: str, name: str, spec: Document) -> None:
        """Change one of our objects."""
        change = json.dumps({"spec": spec})
        self.kubectl("-n", SHOP, "patch", plural, name, "--type=merge", "--patch", change)

    def status(self, plural: str, name: str) -> Document:
        """Read the status of one of our objects; empty before there is one."""
        path = f"/apis/{names.API_VERSION}/namespaces/{SHOP}/{plural}/{name}"
        answer = self.node.admin.ask("GET", path)
        if answer.status == http.HTTPStatus.NOT_FOUND:
            return {}
        found: Document = answer.body.get("status") or {}
        return found

    def until(self, plural: str, name: str, is_right: Callable[[Document], bool]) -> Document:
        """Wait until a status is right."""
        seen = in_time(lambda: self.status(plural, name), is_right)
        if not is_right(seen):
            raise ShopError(
                f"{plural}/{name} is not as it should be after {PATIENCE_SECONDS:g} s: {seen}"
            )
        return seen

    def until_made(self, topic: str) -> None:
        """Wait until a topic is as it should be at all brokers."""
        self.until(TOPICS, topic, lambda it: condition(it, ConditionType.READY)[0] == "True")

    def pods(self, selector: str, namespace: str = SHOP) -> list[Document]:
        """List the pods with a label that are not being deleted."""
        path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}"
        items: list[Document] = self.node.admin.ask("GET", path).body["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def _restarts(self, broker: str) -> int:
        pod = self.node.admin.ask("GET", f"/api/v1/namespaces/{BROKERS}/pods/{broker}").body
        return sum(each["restartCount"] for each in pod["status"]["containerStatuses"])

    def _run(self, program: go.Program, *words: str, told: str = "") -> str:
        command = [str(go.built(program)), "--kubeconfig", str(self.node.admin.kubeconfig), *words]
        done = subprocess.run(command, input=told, capture_output=True, text=True, check=False)
        if done.returncode:
            said = f"{done.stderr}{done.stdout}"
            raise ShopError(f"{program.name} {' '.join(words)}: {said}")
        return done.stdout


@contextlib.contextmanager
def opened() -> Iterator[Shop]:
    """Have a shop on a node of its own, ready for groups, until left."""
    with process.folder("evenkeel-shop-") as place, node.started() as on:
        place.path.chmod(0o777)  # whoever pods are, they may
        shop = Shop(on, place.path)
        shop.install()
        shop.start_rocketmq()
        shop.open()
        yield shop


class Group:
    """A group with a job, which may not be there yet."""

    def __init__(self, shop: Shop, name: str) -> None:
        """Find it by its name."""
        self.shop = shop
        self.name = name
        self.driver = names.name_driver(name)
        self.executor_pods = names.select_executors(name)
        self.driver_pods = f"{names.GROUP_LABEL}={name},{names.ROLE_LABEL}={names.DRIVER}"

    def status(self) -> Document:
        """Read its status."""
        return self.shop.status(GROUPS, self.name)

    def report(self) -> Document:
        """Read what its driver reports."""
        path = f"/api/v1/namespaces/{SHOP}/configmaps/{self.driver}"
        found = self.shop.node.admin.ask("GET", path).body
        report: Document = json.loads(found.get("data", {}).get(names.REPORT, "{}"))
        return report

    def executors(self) -> dict[str, str]:
        """Tell which pod fills which slot, by slot."""
        found = self.status()["assignments"]
        return {each["consumer"]: each["pod"] for each in found if each.get("pod")}

    def scale(self, executors: int) -> None:
        """Want so many executors."""
        self.shop.kubectl("-n", SHOP, "scale", GROUPS, self.name, f"--replicas={executors}")

    def until(self, is_right: Callable[[Document], bool]) -> Document:
        """Wait until its status is right."""
        return self.shop.until(GROUPS, self.name, is_right)

    def until_settled(self) -> Document:
        """Wait until the job runs and follows the newest epoch with all its slots filled."""
        return self.until(_is_settled)

    def until_settled_with(self, slots: int, since: Document) -> Document:
        """Wait until all is settled in an epoch with so many slots, newer than that status."""
        self.until(lambda it: it["epoch"] > since["epoch"] and len(it["assignments"]) == slots)
        return self.until_settled()

    def until_replaced(self, slot: str, pod: str) -> None:
        """Wait until another pod fills a slot."""
        found = in_time(lambda: self.executors().get(slot, pod), lambda it: it != pod)
        if found == pod:
            raise ShopError(f"{self.name}: {pod} still fills {slot}")

    def until_another_driver(self, before: str) -> None:
        """Wait until another driver reports than this one."""
        now = in_time(lambda: self.report().get("driver", before), lambda it: it != before)
        if now == before:
            raise ShopError(f"{self.name}: no other driver reports than {before}")


def _is_settled(status: Document) -> bool:
    return (
        condition(status, ConditionType.READY) == ("True", ConditionReason.RUNNING)
        and status["adoptedEpoch"] == status["epoch"]
        and all(each.get("pod") for each in status["assignments"])
    )
