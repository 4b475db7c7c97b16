"""
What all members of a ConsumerGroup have in common: the group, and the pods that may be members.

A pod finds the coordinator, and is trusted by it, as in `examples/members/`.
"""

import contextlib
import functools
import http
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from benchmarks.handover import manifests, pods, scene
from benchmarks.handover.consumers import Consumers
from benchmarks.handover.effects import Outcome
from benchmarks.handover.pods import Pods, Program
from evenkeel.cluster.members.documents import TRUST
from mq_client.blocking import Client
from sandbox.node.shop import (
    GROUPS,
    PATIENTLY,
    ROOT,
    SHOP,
    TOPICS,
    Shop,
    ShopError,
    wait_patiently,
)
from sandbox.statuses import Document

SESSION_SECONDS = 10
"""The default of `consumers.members.session`."""
ABOUT = f"a ConsumerGroup with members, session {SESSION_SECONDS} s"
QUEUES_EACH = scene.BROKERS_COUNT * scene.QUEUES // scene.CONSUMERS
"""How many queues a member has when it is frozen or cut off."""
COORDINATOR, TOKEN, AUTHORITIES = (
    "$COORDINATOR",
    "/var/run/evenkeel/token",
    "/var/run/evenkeel/ca.crt",
)
"""
Where a program in a pod finds the coordinator, the token and the authorities, as in the example.
"""
_EXAMPLE = ROOT / "examples" / "members" / "billing.yaml"


def name_group(topic: str) -> str:
    """Name the ConsumerGroup that reads a topic, as members do."""
    return f"{SHOP}/{topic}"


def make_program(image: str, command: str, folders: Mapping[str, Path]) -> Program:
    """Describe pods that are members."""
    example = _read_example()
    container = example["containers"][0]
    return Program(
        image, command, folders, container["env"], container["volumeMounts"], example["volumes"]
    )


def make_manifests(topic: str) -> str:
    """Make the Topic and the ConsumerGroup."""
    return manifests.fill(
        "members.yaml",
        NAME=topic,
        SERVER=pods.NAME_SERVER,
        QUEUES=scene.QUEUES,
        SESSION=f"{SESSION_SECONDS}s",
    )


class MemberPods(Pods):
    """Pods that are members."""

    def scale(self, count: int) -> None:
        """
        Scale the pods, and wait until the group has this number of slots; for 0, do not wait.

        A slot whose pod has left keeps its queues for `rebalance.grace`, while they are lent. The
        moves after the grace still belong to the same event.
        """
        super().scale(count)
        if count:
            self.shop.wait_until(GROUPS, self.topic, lambda it: len(it["assignments"]) == count)


@contextlib.contextmanager
def start(shop: Shop, topic: str, program: Program) -> Iterator[Consumers]:
    """Create a topic and a group, and run members until the context is left."""
    shop.apply(make_manifests(topic))
    shop.wait_until_made(topic)
    _wait_until_served(shop)
    crew = MemberPods(shop, topic)
    with pods.start(crew, program, functools.partial(_set_queues, shop, topic)) as side:
        yield side
    shop.kubectl("-n", SHOP, "delete", GROUPS, topic, PATIENTLY)


def play(shop: Shop, topic: str, program: Program) -> Outcome:
    """Play all events once with members that run this program."""

    def begin(shop: Shop, _: Client, topic: str) -> contextlib.AbstractContextManager[Consumers]:
        return start(shop, topic, program)  # the operator makes the topic, without a client

    return scene.play(shop, topic, begin, scene.EVENTS)


def _read_example() -> Document:
    [deployment] = [
        each
        for each in yaml.safe_load_all(_EXAMPLE.read_text(encoding="utf-8"))
        if each["kind"] == "Deployment"
    ]
    found: Document = deployment["spec"]["template"]["spec"]
    return found


def _set_queues(shop: Shop, topic: str, count: int) -> None:
    provision = {"readQueues": count, "writeQueues": count}
    shop.patch(TOPICS, topic, {"provision": provision})


def _wait_until_served(shop: Shop) -> None:
    """Wait for the ConfigMap that pods need; the kubelet looks for it less and less often."""
    path = f"/api/v1/namespaces/{SHOP}/configmaps/{TRUST}"
    status = wait_patiently(
        lambda: shop.node.admin.ask("GET", path).status, lambda it: it == http.HTTPStatus.OK
    )
    if status != http.HTTPStatus.OK:
        raise ShopError(f"the operator has not written {TRUST}")
