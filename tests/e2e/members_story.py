"""
The life of a group whose members are followers in pods, as in `examples/members/`.

After each step, every queue is read by its owner, and every number has been handled. In planned
steps, no number is handled twice. When a member ends unexpectedly, or is cut off, some numbers may
be handled twice: those that were in its calls, and those that it had handled since its last commit.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from contract.kinds.groups import OnOutage
from follower.options import FollowerOptions
from sandbox.node.shop import SHOP, wait_patiently
from sandbox.statuses import Document, count_loads, count_moves, find_owners
from tests.e2e import leading
from tests.e2e.checked import CheckedShop
from tests.e2e.steps import Do, Step, Steps

MEMBERS = 2
IN_FLIGHT = FollowerOptions().batch * 4
"""How many messages may come twice when a member ends unexpectedly: four full handler calls."""
SOME = 100
"""After this many numbers, every queue has received some."""
AWAY_SECONDS = 60.0
"""How long no coordinator runs: several times the session of a member."""
STEPS: list[Step] = []
_step = Steps(STEPS)


def step(
    title: str, expected: str, *, members: int = MEMBERS, most_twice: int | None = 0
) -> Callable[[Do], Do]:
    """
    Register a step.

    After the step, `members` members must read all queues, and at most `most_twice` messages may
    have come twice.
    """

    def check(it: CheckedShop) -> None:
        it.members.wait_until_followed(members)
        it.members.check(most_twice)

    return _step(title, expected, check)


@step(
    "A Topic of 4 queues on each broker, a ConsumerGroup with members, and a Deployment of 2"
    " followers, as in `examples/members/`",
    "each of the two followers reads 4 queues",
)
def begin_members(it: CheckedShop) -> None:
    it.members.begin(MEMBERS, queues=4, spec={})
    status = it.members.wait_until_followed(MEMBERS)
    assert count_loads(status) == {"shipping-0": 4, "shipping-1": 4}


@step(
    "`kubectl scale --replicas=3`",
    "2 queues move, which is the minimum; no message is read twice",
    members=3,
)
def join_members(it: CheckedShop) -> None:
    before = it.members.read_status()
    it.members.scale(MEMBERS + 1)
    assert count_moves(before, it.members.wait_until_followed(MEMBERS + 1)) == 2


@step(
    "`kubectl scale --replicas=2`",
    "the queues of the empty slot move after `rebalance.grace`; no message is read twice",
)
def leave_members(it: CheckedShop) -> None:
    before = it.members.read_status()
    it.members.scale(MEMBERS)
    after = it.members.wait_until_followed(MEMBERS)
    (gone,) = count_loads(before).keys() - count_loads(after).keys()
    assert count_moves(before, after) == count_loads(before)[gone]


@step(
    "`kubectl rollout restart` of the followers",
    "no queue changes its owner; no message is read twice",
)
def roll_out_members(it: CheckedShop) -> None:
    before = it.members.read_status()
    it.members.roll_out()
    _unmoved(it, before)


@step(
    "SIGKILL of a follower",
    "its queues are read again; no queue changes its owner",
    most_twice=None,
)
def kill_member(it: CheckedShop) -> None:
    before = it.members.read_status()
    it.restart_by_kill(SHOP, it.members.find_pod())
    _unmoved(it, before)


@step(
    "A follower is frozen until the other follower has read its queues",
    "only messages in its running handler calls, and those that it handled since its last commit,"
    " may be read twice",
    most_twice=IN_FLIGHT,
)
def freeze_member(it: CheckedShop) -> None:
    _strike(it, it.node.faults.freeze)


@step(
    "A follower is cut off from the network until the other follower has read its queues",
    "only messages in its running handler calls, and those that it handled since its last commit,"
    " may be read twice",
    most_twice=IN_FLIGHT,
)
def cut_member_off(it: CheckedShop) -> None:
    _strike(it, it.node.faults.cut_off)


@step("SIGKILL of the operator that leads", "no queue changes its owner", most_twice=IN_FLIGHT)
def kill_coordinator(it: CheckedShop) -> None:
    before = it.members.read_status()
    leading.kill_leader(it)
    _unmoved(it, before)


@step(
    "No operator for a minute",
    "the followers stop when their sessions end, and continue when an operator is back",
    most_twice=IN_FLIGHT,
)
def stop_without_coordinator(it: CheckedShop) -> None:
    with leading.take_away(it):
        begun = time.monotonic()
        assert not wait_patiently(it.members.list_ready, lambda pods: not pods)
        handled = it.members.count_handled()
        time.sleep(max(0.0, begun + AWAY_SECONDS - time.monotonic()))
        assert it.members.count_handled() == handled


@step(
    "The same with `onOutage: KeepReading`",
    "the followers continue to read during that minute",
    most_twice=IN_FLIGHT,
)
def keep_reading_without_coordinator(it: CheckedShop) -> None:
    it.members.choose_on_outage(OnOutage.KEEP_READING)
    it.members.roll_out()  # new processes learn the setting from the coordinator
    it.members.wait_until_followed(MEMBERS)
    with leading.take_away(it):
        time.sleep(AWAY_SECONDS)
        it.members.wait_until_handled(it.members.sent + SOME)


@_step("Group, followers and topic are deleted", "no pod is left")
def end_members(it: CheckedShop) -> None:
    it.members.end()


def _strike(it: CheckedShop, fault: Callable[[str, str], AbstractContextManager[None]]) -> None:
    with fault(SHOP, it.members.find_pod()):
        it.members.wait_until_handled(it.members.sent + SOME)


def _unmoved(it: CheckedShop, before: Document) -> None:
    after = it.members.wait_until_followed(MEMBERS)
    assert (find_owners(after), after["epoch"]) == (find_owners(before), before["epoch"])
