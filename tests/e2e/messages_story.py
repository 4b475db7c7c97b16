"""
The life of a group that is balanced by message: its members are followers in pods, which pop.

After each step, every number has been handled. In planned steps, no number is handled twice. When a
member ends unexpectedly, some may come twice: those in its calls, and those not acknowledged yet.
"""

from collections.abc import Callable

from contract.kinds.groups import Balance
from follower.options import MESSAGE_CALLS
from sandbox.node.shop import SHOP, wait_patiently
from tests.e2e.checked import CheckedShop
from tests.e2e.steps import Do, Step, Steps

FEW, MANY = 2, 6
"""Numbers of members. There are more of them than queues then."""
QUEUES = 1
"""On each of the two brokers."""
IN_FLIGHT = 2 * MESSAGE_CALLS
"""
How many messages may come twice when a member ends unexpectedly: one in each call, and as many that
were handled, but not acknowledged yet.
"""
SPEC = {"balance": "Messages", "messages": {"invisibleTime": "10s"}}
STEPS: list[Step] = []
_step = Steps(STEPS)


def step(title: str, expected: str, members: int, most_twice: int = 0) -> Callable[[Do], Do]:
    """
    Register a step.

    After the step, `members` members must pop, and at most `most_twice` messages may have come
    twice.
    """

    def check(it: CheckedShop) -> None:
        it.poppers.wait_until_popping(members)
        it.poppers.check(most_twice)

    return _step(title, expected, check)


@step(
    "A Topic of 1 queue on each broker, a ConsumerGroup with `balance: Messages`, and a Deployment"
    " of 2 followers",
    "both followers get messages",
    FEW,
)
def begin_poppers(it: CheckedShop) -> None:
    it.poppers.begin(FEW, QUEUES, SPEC)
    it.poppers.wait_until_popping(FEW)
    _wait_until_busy(it, FEW)


@step(
    "`kubectl scale --replicas=6`, which are more followers than queues",
    "all of them get messages; no message is read twice",
    MANY,
)
def add_poppers(it: CheckedShop) -> None:
    before = len(it.poppers.list_busy())
    it.poppers.scale(MANY)
    _wait_until_busy(it, before + MANY - FEW)


@step(
    "SIGKILL of a follower",
    "the messages in its calls come again after `invisibleTime`",
    MANY,
    IN_FLIGHT,
)
def kill_popper(it: CheckedShop) -> None:
    it.restart_by_kill(SHOP, it.poppers.list_ready()[0])


@step(
    "A follower is frozen until the other followers have handled all that was sent",
    "the other followers get the messages in its calls; when it wakes up, it begins nothing that"
    " others may have got",
    MANY,
    IN_FLIGHT,
)
def freeze_popper(it: CheckedShop) -> None:
    with it.node.faults.freeze(SHOP, it.poppers.list_ready()[0]):
        it.poppers.wait_until_handled(it.poppers.sent + 1)


@step(
    "`kubectl scale --replicas=2`",
    "no message is read twice; the status shows what waits at the brokers, and their stores",
    FEW,
)
def remove_poppers(it: CheckedShop) -> None:
    it.poppers.scale(FEW)
    status = wait_patiently(it.poppers.read_status, lambda found: "waiting" in found)
    assert "waiting" in status
    assert [each["store"] for each in status["stores"]] == ["Files", "Files"]


@step(
    "`balance: Queues`, then `balance: Messages` with `messages.ordered: true`, then without it",
    "no message is lost or read twice",
    FEW,
)
def change_balance(it: CheckedShop) -> None:
    for balance, is_ordered in ((Balance.QUEUES, False), (Balance.MESSAGES, True)):
        it.poppers.choose_balance(balance, is_ordered=is_ordered)
        it.poppers.wait_until_reading(balance, is_ordered=is_ordered)
        it.poppers.wait_until_followed(FEW)
        it.poppers.wait_until_handled(it.poppers.sent + 1)
    it.poppers.choose_balance(Balance.MESSAGES)
    it.poppers.wait_until_reading(Balance.MESSAGES)


@_step("Group, followers and topic are deleted", "no pod is left")
def end_poppers(it: CheckedShop) -> None:
    it.poppers.end()


def _wait_until_busy(it: CheckedShop, pods: int) -> None:
    """Wait until so many pods have handled messages."""
    busy = wait_patiently(it.poppers.list_busy, lambda found: len(found) >= pods)
    assert len(busy) >= pods
