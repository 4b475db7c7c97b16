"""
The life of a group with a job, step by step, with the expected result of each step.

After each step, three things are checked: every queue has one owner, tasks run on the owners of
their queues, and no numbered message is lost or duplicated.
"""

from collections.abc import Callable

from sandbox.node.shop import (
    CHART,
    GROUPS,
    PATIENTLY,
    RELEASE,
    SHOP,
    TOPICS,
    wait_patiently,
)
from sandbox.statuses import Document, count_loads, count_moves, find_owners
from tests.e2e import leading
from tests.e2e.checked import FLOW, GROUP, POPPING, TOPIC, CheckedShop
from tests.e2e.steps import Do, Step, Steps

QUICK_LEASE = 'lease={"duration": 5, "deadline": 3, "period": 1}'
STEPS: list[Step] = []
_step = Steps(STEPS)


def step(title: str, expected: str, *, is_checked: bool = True) -> Callable[[Do], Do]:
    """Register a step. After the step, check what the docstring of this file lists."""
    return _step(title, expected, CheckedShop.check if is_checked else None)


@step(
    "`helm install` with two operators, then `helm test`",
    "the Deployment is available; the test passes",
    is_checked=False,
)
def install(it: CheckedShop) -> None:
    it.install("--set", "replicas=2,members.enabled=true", "--set-json", QUICK_LEASE)
    assert "Succeeded" in it.helm("test", RELEASE)


@step(
    "`kubectl apply -f examples/rocketmq/`",
    "a name server and two brokers are ready",
    is_checked=False,
)
def rocketmq(it: CheckedShop) -> None:
    it.start_rocketmq()
    it.open()


@step(
    "A Topic of 4 queues on each broker and a ConsumerGroup with a job of 2 executors",
    "the topic is created, the job runs, and each slot has 4 queues",
)
def begin(it: CheckedShop) -> None:
    it.apply_file("billing.yaml")
    it.wait_until_made(TOPIC)
    it.begin_numbers()
    assert count_loads(it.group.wait_until_settled()) == {"billing-0": 4, "billing-1": 4}


@step(
    "`kubectl scale --replicas=3`", "2 queues move, which is the minimum for 8 queues and 3 slots"
)
def scale_out(it: CheckedShop) -> None:
    before = it.group.read_status()
    it.group.scale(3)
    after = it.group.wait_until_settled_with(3, since=before)
    assert (sorted(count_loads(after).values()), count_moves(before, after)) == ([2, 3, 3], 2)


@step("`kubectl scale --replicas=2`", "the queues of one slot move, and no other queues")
def scale_in(it: CheckedShop) -> None:
    before = it.group.read_status()
    it.group.scale(2)
    after = it.group.wait_until_settled_with(2, since=before)
    (gone,) = count_loads(before).keys() - count_loads(after).keys()
    assert (sorted(count_loads(after).values()), count_moves(before, after)) == (
        [4, 4],
        count_loads(before)[gone],
    )


@step("`kubectl delete pod` of an executor", "another pod fills its slot; no queue moves")
def delete_executor(it: CheckedShop) -> None:
    def delete(pod: str) -> None:
        it.kubectl("-n", SHOP, "delete", "pod", pod, "--wait=false")

    _replaced(it, delete)


@step("SIGKILL of an executor", "another pod fills its slot; no queue moves")
def kill_executor(it: CheckedShop) -> None:
    _replaced(it, lambda pod: it.node.faults.kill(SHOP, pod))


@step("SIGKILL of the driver", "a new driver continues from the checkpoint; no queue moves")
def kill_driver(it: CheckedShop) -> None:
    before, driver = it.group.read_status(), it.group.report()["driver"]
    it.node.faults.kill(SHOP, it.group.driver)
    it.group.wait_for_another_driver(driver)
    _unmoved(it, before)


@step(
    "SIGKILL of the operator that leads",
    "the other operator leads, or the same one after its restart; no queue moves, no job restarts",
)
def kill_leader(it: CheckedShop) -> None:
    before, executors = it.group.read_status(), it.group.find_executors()
    leading.kill_leader(it)
    _unmoved(it, before)
    assert it.group.find_executors() == executors


@step("SIGKILL of a broker", "no queue moves; when the broker is back, its queues are read again")
def kill_broker(it: CheckedShop) -> None:
    before = it.group.read_status()
    it.kill_broker()
    _unmoved(it, before)


@step(
    "The Topic grows from 8 to 12 queues", "4 queues are created and read; no existing queue moves"
)
def grow(it: CheckedShop) -> None:
    before = it.group.read_status()
    it.patch(TOPICS, TOPIC, {"provision": {"readQueues": 6, "writeQueues": 6}})
    after = it.group.wait_until(lambda status: status["queues"] == 12)
    assert count_moves(before, after) == 0


@step(
    "The Topic shrinks to 8 queues again", "4 queues are read to their end before they are closed"
)
def shrink(it: CheckedShop) -> None:
    it.patch(TOPICS, TOPIC, {"provision": {"readQueues": 4, "writeQueues": 4}})
    it.group.wait_until(lambda status: status["queues"] == 8)


@step(
    "`kubectl rollout restart` of the operators",
    "no queue moves; no driver and no executor restarts",
)
def restart_operators(it: CheckedShop) -> None:
    before, executors = it.group.read_status(), it.group.find_executors()
    it.kubectl("-n", RELEASE, "rollout", "restart", "deployment/evenkeel")
    it.roll_out(RELEASE, "deployment/evenkeel")
    _unmoved(it, before)
    assert it.group.find_executors() == executors


@step(
    "`suspend: true`; meanwhile, a second group runs a scheduled job",
    "driver and executors end; the scheduled job reads each message sent meanwhile once, and ends",
    is_checked=False,
)
def suspend(it: CheckedShop) -> None:
    it.patch(GROUPS, GROUP, {"suspend": True})
    since = it.sent  # earlier messages may be in a queue that closed after all groups had read it
    gone = wait_patiently(
        lambda: it.list_pods(f"evenkeel.dev/group={GROUP}"), lambda pods: not pods, 120
    )
    assert not gone
    it.apply_file("nightly.yaml")
    it.check_numbers("nightly", since)
    it.kubectl("-n", SHOP, "delete", GROUPS, "nightly", PATIENTLY)


@step(
    "Another group runs a job as a flow; SIGKILL of one of its executors, then of its driver",
    "both are replaced; the flow reads each message sent meanwhile once",
    is_checked=False,
)
def flow(it: CheckedShop) -> None:
    since = it.sent  # earlier messages may be in a queue that was closed
    it.apply_file("flow.yaml")
    it.check_flow(since)
    slot, pod = min(it.flow.find_executors().items())
    it.node.faults.kill(SHOP, pod)
    it.flow.wait_until_replaced(slot, pod)
    it.check_flow(since)
    driver = it.flow.report()["driver"]
    it.node.faults.kill(SHOP, it.flow.driver)
    it.flow.wait_for_another_driver(driver)
    it.check_flow(since)
    it.kubectl("-n", SHOP, "delete", GROUPS, FLOW, PATIENTLY)


@step(
    "Another group with `balance: Messages` runs a job; SIGKILL of one of its executors",
    "no message comes twice until then; none is lost",
    is_checked=False,
)
def popping(it: CheckedShop) -> None:
    since = it.sent
    it.apply_file("popping.yaml")
    it.popping.wait_until_settled()
    it.check_numbers(POPPING, since)
    slot, pod = min(it.popping.find_executors().items())
    it.node.faults.kill(SHOP, pod)
    it.popping.wait_until_replaced(slot, pod)
    it.check_numbers(POPPING, since, may_double=True)
    it.kubectl("-n", SHOP, "delete", GROUPS, POPPING, PATIENTLY)


@step("`suspend: false`", "the job continues where it stopped; no queue moves")
def resume(it: CheckedShop) -> None:
    before = it.group.read_status()
    it.patch(GROUPS, GROUP, {"suspend": False})
    _unmoved(it, before)


@step("`helm upgrade` with other values", "the operators are replaced; no queue moves")
def upgrade(it: CheckedShop) -> None:
    before, executors = it.group.read_status(), it.group.find_executors()
    it.helm(
        "upgrade", RELEASE, str(CHART), "--reuse-values", "--wait", PATIENTLY,
        "--set", "podAnnotations.upgraded=yes",
    )  # fmt: skip
    _unmoved(it, before)
    assert it.group.find_executors() == executors


@step(
    "The group is deleted",
    "none of its pods, ConfigMaps, Leases, accounts or roles is left",
    is_checked=False,
)
def end(it: CheckedShop) -> None:
    it.end_numbers()
    it.kubectl("-n", SHOP, "delete", GROUPS, GROUP, PATIENTLY)
    kinds = "pods,configmaps,leases,serviceaccounts,roles,rolebindings,networkpolicies,services"
    left = wait_patiently(
        lambda: it.kubectl(
            "-n", SHOP, "get", kinds, "-l", f"evenkeel.dev/group={GROUP}", "-o", "name"
        ),
        lambda names: not names,
        60,
    )
    assert not left
    it.kubectl("-n", SHOP, "delete", "topics", TOPIC, "--timeout=60s")


def _replaced(it: CheckedShop, lose: Callable[[str], None]) -> None:
    before, pods = it.group.read_status(), it.group.find_executors()
    slot, pod = min(pods.items())
    lose(pod)
    it.group.wait_until_replaced(slot, pod)
    assert {other: it.group.find_executors()[other] for other in pods if other != slot} == {
        other: name for other, name in pods.items() if other != slot
    }
    _unmoved(it, before)
    assert len(it.list_pods(it.group.executor_pods)) == len(pods)


def _unmoved(it: CheckedShop, before: Document) -> None:
    after = it.group.wait_until_settled()
    assert (find_owners(after), after["epoch"]) == (find_owners(before), before["epoch"])
