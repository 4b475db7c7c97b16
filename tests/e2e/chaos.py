"""
Events that can happen to groups at any time. Several can happen at the same time.

An event affects one group, and does not wait until the group has recovered. Some events last until
the next events begin.
"""

import contextlib
import random
from collections.abc import Callable, Iterator

from contract.kinds.groups import Balance
from sandbox.node.ground import GroundError
from sandbox.node.shop import BROKERS, OPERATORS, RELEASE, SHOP, TOPICS, ShopGroup
from tests.e2e.checked import TOPIC, CheckedShop

Event = Callable[[CheckedShop, random.Random], contextlib.AbstractContextManager[None]]
EVENTS: dict[str, Event] = {}
MOST_FOLLOWERS = 4
"""Of a group with two queues, which is balanced by queue, by message, or in order."""


def lasting(event: Callable[[CheckedShop, random.Random], Iterator[None]]) -> None:
    """Register an event that lasts until its context ends."""
    EVENTS[event.__name__] = contextlib.contextmanager(event)


def at_once(event: Callable[[CheckedShop, random.Random], None]) -> None:
    """Register an event that is over immediately."""

    def done(it: CheckedShop, rng: random.Random) -> Iterator[None]:
        event(it, rng)
        yield

    EVENTS[event.__name__] = contextlib.contextmanager(done)


def choose(it: CheckedShop, rng: random.Random) -> ShopGroup:
    return rng.choice([it.group, it.flow])


def running(it: CheckedShop, selector: str, namespace: str = SHOP) -> list[str]:
    """List the running pods, which an event could affect."""
    return sorted(
        pod["metadata"]["name"]
        for pod in it.list_pods(selector, namespace)
        if any("running" in each["state"] for each in pod["status"].get("containerStatuses", []))
    )


def strike(rng: random.Random, pods: list[str], how: Callable[[str], object]) -> None:
    """Affect one of these pods, if there is any. Ignore the error if the pod has just ended."""
    if pods:
        with contextlib.suppress(GroundError):
            how(rng.choice(pods))


def hold(
    rng: random.Random,
    pods: list[str],
    how: Callable[[str, str], contextlib.AbstractContextManager[None]],
) -> Iterator[None]:
    """Affect one of these pods, if there is any, until the event ends."""
    with contextlib.ExitStack() as struck:
        strike(rng, pods, lambda pod: struck.enter_context(how(SHOP, pod)))
        yield


def kill(it: CheckedShop, rng: random.Random, selector: str, namespace: str = SHOP) -> None:
    pods = running(it, selector, namespace)
    strike(rng, pods, lambda pod: it.node.faults.kill(namespace, pod))


@at_once
def kill_an_executor(it: CheckedShop, rng: random.Random) -> None:
    kill(it, rng, choose(it, rng).executor_pods)


@at_once
def delete_an_executor(it: CheckedShop, rng: random.Random) -> None:
    delete = ("-n", SHOP, "delete", "pod", "--wait=false", "--ignore-not-found")
    strike(rng, running(it, choose(it, rng).executor_pods), lambda pod: it.kubectl(*delete, pod))


@lasting
def freeze_an_executor(it: CheckedShop, rng: random.Random) -> Iterator[None]:
    yield from hold(rng, running(it, choose(it, rng).executor_pods), it.node.faults.freeze)


@lasting
def cut_an_executor_off(it: CheckedShop, rng: random.Random) -> Iterator[None]:
    yield from hold(rng, running(it, choose(it, rng).executor_pods), it.node.faults.cut_off)


@at_once
def kill_a_follower(it: CheckedShop, rng: random.Random) -> None:
    kill(it, rng, it.poppers.pods)


@lasting
def freeze_a_follower(it: CheckedShop, rng: random.Random) -> Iterator[None]:
    yield from hold(rng, running(it, it.poppers.pods), it.node.faults.freeze)


@lasting
def cut_a_follower_off(it: CheckedShop, rng: random.Random) -> Iterator[None]:
    yield from hold(rng, running(it, it.poppers.pods), it.node.faults.cut_off)


@at_once
def scale_the_followers(it: CheckedShop, rng: random.Random) -> None:
    it.poppers.scale(rng.randint(1, MOST_FOLLOWERS))


@at_once
def change_the_balance(it: CheckedShop, rng: random.Random) -> None:
    it.poppers.choose_balance(rng.choice([*Balance]), is_ordered=rng.random() < 0.5)


@at_once
def kill_the_driver(it: CheckedShop, rng: random.Random) -> None:
    kill(it, rng, choose(it, rng).driver_pods)


@at_once
def kill_an_operator(it: CheckedShop, rng: random.Random) -> None:
    kill(it, rng, OPERATORS, RELEASE)


@at_once
def restart_the_operators(it: CheckedShop, _rng: random.Random) -> None:
    it.kubectl("-n", RELEASE, "rollout", "restart", "deployment/evenkeel")


@at_once
def kill_a_broker(it: CheckedShop, rng: random.Random) -> None:
    kill(it, rng, "app=rocketmq-broker", BROKERS)


@at_once
def scale(it: CheckedShop, rng: random.Random) -> None:
    choose(it, rng).scale(rng.randint(1, 3))


@at_once
def resize_the_topic(it: CheckedShop, rng: random.Random) -> None:
    count = rng.randint(4, 6)
    it.patch(TOPICS, TOPIC, {"provision": {"readQueues": count, "writeQueues": count}})


@lasting
def slow_the_api(it: CheckedShop, rng: random.Random) -> Iterator[None]:
    with it.node.faults.slow_api(rng.randint(20, 60)):
        yield


@lasting
def take_the_api_away(it: CheckedShop, _rng: random.Random) -> Iterator[None]:
    with it.node.faults.stop_api():
        yield
