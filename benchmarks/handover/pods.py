"""Runs consumers in the pods of a StatefulSet, each kind of consumer with a program of its own."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.handover import scene
from benchmarks.handover.consumers import Consumers, SetQueues
from sandbox.node.shop import SHOP, Shop
from sandbox.statuses import Document

NAME_SERVER = "rocketmq-namesrv.mq.svc:9876"
_SAID = "/said"
_GRACE_SECONDS = 40
"""Longer than members may take to finish their queues (`members.drain`)."""


@dataclass(frozen=True, slots=True)
class Program:
    """What runs in the pods."""

    image: str
    command: str
    """A shell command. It prints what it has consumed."""
    folders: Mapping[str, Path]
    """Folders of this machine, by their mount paths in the pods."""
    env: Sequence[Document] = ()
    mounts: Sequence[Document] = ()
    volumes: Sequence[Document] = ()


def build(topic: str, program: Program, said: Path) -> Document:
    """Build the StatefulSet. Each process writes to its own file in the folder `said`."""
    labels = {"app": topic}
    folders = {**program.folders, _SAID: said}
    mounts = [
        {"name": f"folder-{number}", "mountPath": place, "readOnly": place != _SAID}
        for number, place in enumerate(folders)
    ]
    volumes = [
        {"name": f"folder-{number}", "hostPath": {"path": str(folder)}}
        for number, folder in enumerate(folders.values())
    ]
    container = {
        "name": "consumer",
        "image": program.image,
        "command": ["sh", "-c", f"exec {program.command} > {_SAID}/$HOSTNAME.$(date +%s%N)"],
        "env": [*program.env],
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"memory": "640Mi"},
        },
        "volumeMounts": [*mounts, *program.mounts],
    }
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "containers": [container],
        "volumes": [*volumes, *program.volumes],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": topic},
        "spec": {
            "replicas": scene.CONSUMERS,
            "serviceName": topic,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


class Pods:
    """The pods of a StatefulSet, each of which is a seat."""

    def __init__(self, shop: Shop, topic: str) -> None:
        """Refer to the StatefulSet, which may not exist yet."""
        self.shop = shop
        self.topic = topic

    def scale(self, count: int) -> None:
        """Run this number of pods."""
        name = f"statefulset/{self.topic}"
        self.shop.kubectl("-n", SHOP, "scale", name, f"--replicas={count}")

    def kill(self, seat: str) -> None:
        """Kill the process of a pod; the kubelet starts it again."""
        self.shop.node.faults.kill(SHOP, seat)


@contextlib.contextmanager
def start(crew: Pods, program: Program, set_queues: SetQueues) -> Iterator[Consumers]:
    """Run consumers of a topic that exists, until the context is left."""
    shop, topic = crew.shop, crew.topic
    said = shop.folder / f"{topic}-said"
    said.mkdir()
    said.chmod(0o777)  # so that pods of any user can write to it
    shop.apply(json.dumps(build(topic, program, said)))
    with contextlib.ExitStack() as struck:
        queues = scene.BROKERS_COUNT * scene.QUEUES
        yield Consumers(crew, set_queues, topic, said, struck, queues)
