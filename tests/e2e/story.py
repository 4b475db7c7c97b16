"""
What happens to a group in its life, step by step, and what is expected of each step.

After each one all is checked again: every queue is owned once, tasks run where the epoch says, and
of the numbered messages that keep arriving none is lost and none is there twice. The table in
docs/story.md is made from this file.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sandbox.waiting import eventually
from tests.e2e import shop
from tests.e2e.shop import BROKERS, DRIVER, EXECUTORS, GROUP, GROUPS, RELEASE, SHOP, TOPIC, Shop
from tests.real.cluster.running import Document, condition, loads

ROLLED_OUT = "--timeout=120s"
REGISTERED_SECONDS = 120.0
"""A broker that has not found the name server at once looks for it again after half a minute."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens."""

    title: str
    expected: str
    do: Callable[[Shop], None]
    is_checked: bool


STEPS: list[Step] = []


Do = Callable[[Shop], None]


def step(title: str, expected: str, *, is_checked: bool = True) -> Callable[[Do], Do]:
    """Note a step, in the order of this file."""

    def noted(do: Do) -> Do:
        STEPS.append(Step(title, expected, do, is_checked))
        return do

    return noted


@step(
    "`helm install` with two operators, then `helm test`",
    "the Deployment is available; the test passes",
    is_checked=False,
)
def install(it: Shop) -> None:
    options = ("--set", "replicas=2", "--set-json", shop.QUICK_LEASE)
    it.helm(
        "install", RELEASE, str(shop.CHART), "--create-namespace", "--wait", "--timeout=120s",
        *options,
    )  # fmt: skip
    assert "Succeeded" in it.helm("test", RELEASE)


@step(
    "`kubectl apply -f examples/rocketmq/`",
    "a name server and two brokers are ready",
    is_checked=False,
)
def rocketmq(it: Shop) -> None:
    it.kubectl("create", "namespace", BROKERS)
    it.kubectl("-n", BROKERS, "apply", "-f", str(shop.ROOT / "examples" / "rocketmq"))
    for name in ("deployment/rocketmq-namesrv", "statefulset/rocketmq-broker"):
        it.kubectl("-n", BROKERS, "rollout", "status", name, ROLLED_OUT)


@step(
    "A Topic of 4 queues on each broker and a ConsumerGroup with a job of 2 executors",
    "the topic is made, the job runs, 4 queues for each slot",
)
def begin(it: Shop) -> None:
    it.kubectl("create", "namespace", SHOP)
    it.apply("state.yaml")
    it.apply("billing.yaml")
    it.objects.until("topics", TOPIC, _is_ready, REGISTERED_SECONDS)
    it.begin_numbers()
    assert loads(it.until_settled()) == {"billing-0": 4, "billing-1": 4}


@step("`kubectl scale --replicas=3`", "2 queues move, the fewest for 8 queues and 3 slots")
def scale_out(it: Shop) -> None:
    before = it.status()
    it.kubectl("-n", SHOP, "scale", GROUPS, GROUP, "--replicas=3")
    after = _settled_with(it, before, slots=3)
    assert (sorted(loads(after).values()), moves(before, after)) == ([2, 3, 3], 2)


@step("`kubectl scale --replicas=2`", "the queues of one slot move, and no others")
def scale_in(it: Shop) -> None:
    before = it.status()
    it.kubectl("-n", SHOP, "scale", GROUPS, GROUP, "--replicas=2")
    after = _settled_with(it, before, slots=2)
    (gone,) = loads(before).keys() - loads(after).keys()
    assert (sorted(loads(after).values()), moves(before, after)) == ([4, 4], loads(before)[gone])


@step("`kubectl delete pod` of an executor", "another pod fills its slot; nothing moves")
def delete_executor(it: Shop) -> None:
    def delete(pod: str) -> None:
        it.kubectl("-n", SHOP, "delete", "pod", pod, "--wait=false")

    _replaced(it, delete)


@step("SIGKILL of an executor", "another pod fills its slot; nothing moves")
def kill_executor(it: Shop) -> None:
    _replaced(it, lambda pod: it.node.faults.kill(SHOP, pod))


@step("SIGKILL of the driver", "a new driver goes on from the checkpoint; nothing moves")
def kill_driver(it: Shop) -> None:
    before, driver = it.status(), it.report()["driver"]
    it.node.faults.kill(SHOP, DRIVER)
    _until_another_driver(it, driver)
    _unmoved(it, before)


@step("SIGKILL of the operator that leads", "the other one leads; nothing moves, nothing restarts")
def kill_leader(it: Shop) -> None:
    before, leader, executors = it.status(), _leader(it), it.executors()
    it.node.faults.kill(RELEASE, leader)
    eventually(lambda: _leader(it), lambda now: now != leader, 60)
    assert _leader(it) != leader
    _unmoved(it, before)
    assert it.executors() == executors


@step("SIGKILL of a broker", "its queues wait for it, the others may too; nothing moves")
def kill_broker(it: Shop) -> None:
    before = it.status()
    it.node.faults.kill(BROKERS, "rocketmq-broker-0")
    it.kubectl("-n", BROKERS, "rollout", "status", "statefulset/rocketmq-broker", ROLLED_OUT)
    _unmoved(it, before)


@step("The Topic grows from 8 to 12 queues", "4 queues are made and read; nothing moves")
def grow(it: Shop) -> None:
    before = it.status()
    it.patch("topics", TOPIC, {"provision": {"readQueues": 6, "writeQueues": 6}})
    after = it.objects.until(GROUPS, GROUP, lambda status: status["queues"] == 12, 120)
    assert moves(before, after) == 0


@step("The Topic shrinks to 8 queues again", "what was in the 4 is read before they go")
def shrink(it: Shop) -> None:
    it.patch("topics", TOPIC, {"provision": {"readQueues": 4, "writeQueues": 4}})
    it.objects.until(GROUPS, GROUP, lambda status: status["queues"] == 8, 120)


@step("`kubectl rollout restart` of the operators", "nothing moves, nothing else restarts")
def restart_operators(it: Shop) -> None:
    before, executors = it.status(), it.executors()
    it.kubectl("-n", RELEASE, "rollout", "restart", "deployment/evenkeel")
    it.kubectl("-n", RELEASE, "rollout", "status", "deployment/evenkeel", ROLLED_OUT)
    _unmoved(it, before)
    assert it.executors() == executors


@step(
    "`suspend: true`, and meanwhile a group whose job runs by the clock",
    "driver and executors end; the scheduled job reads everything once, and ends",
    is_checked=False,
)
def suspend(it: Shop) -> None:
    it.patch(GROUPS, GROUP, {"suspend": True})
    gone = eventually(lambda: it.pods(f"evenkeel.dev/group={GROUP}"), lambda pods: not pods, 120)
    assert not gone
    it.apply("nightly.yaml")
    it.check_numbers("nightly")
    it.kubectl("-n", SHOP, "delete", GROUPS, "nightly", "--timeout=120s")


@step("`suspend: false`", "the job goes on where it was; nothing moves")
def resume(it: Shop) -> None:
    before = it.status()
    it.patch(GROUPS, GROUP, {"suspend": False})
    _unmoved(it, before)


@step("`helm upgrade` with other values", "the operators are replaced; nothing moves")
def upgrade(it: Shop) -> None:
    before, executors = it.status(), it.executors()
    it.helm(
        "upgrade", RELEASE, str(shop.CHART), "--reuse-values", "--wait", "--timeout=120s",
        "--set", "podAnnotations.upgraded=yes",
    )  # fmt: skip
    _unmoved(it, before)
    assert it.executors() == executors


@step(
    "The group is deleted, then the release",
    "no pod, ConfigMap, Lease, account or role is left of the group, nor a pod of the operator",
    is_checked=False,
)
def end(it: Shop) -> None:
    it.end_numbers()
    it.kubectl("-n", SHOP, "delete", GROUPS, GROUP, "--timeout=120s")
    kinds = "pods,configmaps,leases,serviceaccounts,roles,rolebindings,services"
    left = eventually(
        lambda: it.kubectl(
            "-n", SHOP, "get", kinds, "-l", f"evenkeel.dev/group={GROUP}", "-o", "name"
        ),
        lambda names: not names,
        60,
    )
    assert not left
    it.kubectl("-n", SHOP, "delete", "topics", "--all", "--timeout=60s")
    it.helm("uninstall", RELEASE, "--wait")
    assert not it.pods("app.kubernetes.io/name=evenkeel", RELEASE)


def _is_ready(status: Document) -> bool:
    return condition(status, "Ready")[0] == "True"


def moves(before: Document, after: Document) -> int:
    """Count the queues that had an owner and have another one now."""
    had, has = _owner_by_queue(before), _owner_by_queue(after)
    return sum(has[queue] != owner for queue, owner in had.items() if queue in has)


def _owner_by_queue(status: Document) -> dict[shop.Queue, str]:
    return {
        queue: each["consumer"]
        for each in status["assignments"]
        for queue in shop.owned({"assignments": [each]})
    }


def _settled_with(it: Shop, before: Document, slots: int) -> Document:
    it.objects.until(
        GROUPS,
        GROUP,
        lambda status: status["epoch"] > before["epoch"] and len(status["assignments"]) == slots,
        shop.PATIENCE_SECONDS,
    )
    return it.until_settled()


def _replaced(it: Shop, lose: Callable[[str], None]) -> None:
    before, pods = it.status(), it.executors()
    slot, pod = min(pods.items())
    lose(pod)
    eventually(lambda: it.executors().get(slot, pod), lambda now: now != pod, 120)
    assert it.executors()[slot] != pod
    assert {other: it.executors()[other] for other in pods if other != slot} == {
        other: name for other, name in pods.items() if other != slot
    }
    _unmoved(it, before)
    assert len(it.pods(EXECUTORS)) == len(pods)


def _until_another_driver(it: Shop, driver: str) -> None:
    found = eventually(
        lambda: it.report().get("driver", driver),
        lambda now: now != driver,
        shop.PATIENCE_SECONDS,
    )
    assert found != driver


def _unmoved(it: Shop, before: Document) -> None:
    after = it.until_settled()
    assert (shop.owners(after), after["epoch"]) == (shop.owners(before), before["epoch"])


def _leader(it: Shop) -> str:
    lease = it.node.admin.ask(
        "GET", f"/apis/coordination.k8s.io/v1/namespaces/{RELEASE}/leases/evenkeel-operator"
    )
    holder: str = lease.body["spec"].get("holderIdentity") or ""
    return holder.rpartition("_")[0]
