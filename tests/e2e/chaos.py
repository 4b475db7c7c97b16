"""
What may happen to a group, at any time and one upon the other.

An event does its part and does not wait until all is well again. Those that last, last some
seconds, in which the next ones come.
"""

import contextlib
import random
from collections.abc import Callable, Iterator

from sandbox.node.shop import BROKERS, OPERATORS, RELEASE, SHOP, TOPICS
from tests.e2e.checked import TOPIC, CheckedShop

Event = Callable[[CheckedShop, random.Random], contextlib.AbstractContextManager[None]]
EVENTS: dict[str, Event] = {}


def lasting(event: Callable[[CheckedShop, random.Random], Iterator[None]]) -> None:
    """Note an event that lasts until it is left."""
    EVENTS[event.__name__] = contextlib.contextmanager(event)


def at_once(event: Callable[[CheckedShop, random.Random], None]) -> None:
    """Note an event that is over when it has begun."""

    def done(it: CheckedShop, rng: random.Random) -> Iterator[None]:
        event(it, rng)
        yield

    EVENTS[event.__name__] = contextlib.contextmanager(done)


def an_executor(it: CheckedShop, rng: random.Random) -> str | None:
    """Choose one of those that are there."""
    pods = sorted(
        pod["metadata"]["name"] for pod in it.pods(it.group.executor_pods) if is_running(pod)
    )
    return rng.choice(pods) if pods else None


def is_running(pod: dict[str, dict[str, object]]) -> bool:
    return pod["status"]["phase"] == "Running"


@at_once
def kill_an_executor(it: CheckedShop, rng: random.Random) -> None:
    if pod := an_executor(it, rng):
        it.node.faults.kill(SHOP, pod)


@at_once
def delete_an_executor(it: CheckedShop, rng: random.Random) -> None:
    if pod := an_executor(it, rng):
        it.kubectl("-n", SHOP, "delete", "pod", pod, "--wait=false", "--ignore-not-found")


@lasting
def freeze_an_executor(it: CheckedShop, rng: random.Random) -> Iterator[None]:
    pod = an_executor(it, rng)
    with it.node.faults.frozen(SHOP, pod) if pod else contextlib.nullcontext():
        yield


@lasting
def cut_an_executor_off(it: CheckedShop, rng: random.Random) -> Iterator[None]:
    pod = an_executor(it, rng)
    with it.node.faults.cut_off(SHOP, pod) if pod else contextlib.nullcontext():
        yield


@at_once
def kill_the_driver(it: CheckedShop, _rng: random.Random) -> None:
    if any(is_running(pod) for pod in it.pods(it.group.driver_pods)):
        it.node.faults.kill(SHOP, it.group.driver)


@at_once
def kill_an_operator(it: CheckedShop, rng: random.Random) -> None:
    pods = [pod for pod in it.pods(OPERATORS, RELEASE) if is_running(pod)]
    it.node.faults.kill(RELEASE, rng.choice(pods)["metadata"]["name"])


@at_once
def restart_the_operators(it: CheckedShop, _rng: random.Random) -> None:
    it.kubectl("-n", RELEASE, "rollout", "restart", "deployment/evenkeel")


@at_once
def kill_a_broker(it: CheckedShop, rng: random.Random) -> None:
    it.node.faults.kill(BROKERS, f"rocketmq-broker-{rng.randrange(2)}")


@at_once
def scale(it: CheckedShop, rng: random.Random) -> None:
    it.group.scale(rng.randint(1, 3))


@at_once
def resize_the_topic(it: CheckedShop, rng: random.Random) -> None:
    count = rng.randint(4, 6)
    it.patch(TOPICS, TOPIC, {"provision": {"readQueues": count, "writeQueues": count}})


@lasting
def slow_the_api(it: CheckedShop, rng: random.Random) -> Iterator[None]:
    with it.node.faults.with_slow_api(rng.randint(20, 60)):
        yield


@lasting
def take_the_api_away(it: CheckedShop, _rng: random.Random) -> Iterator[None]:
    with it.node.faults.without_api():
        yield
