"""A group whose members are followers in pods, and numbered messages, which all must be handled."""

import json
from collections import Counter
from pathlib import Path

import yaml

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.groups import Balance, OnOutage
from sandbox import images
from sandbox.node.shop import GROUPS, PATIENTLY, ROOT, SHOP, TOPICS, Shop, wait_patiently
from sandbox.statuses import Document, read_condition
from tests.real.numbers import Numbers

_EXAMPLE = ROOT / "examples" / "members" / "billing.yaml"
_STATE, _CODE = "/state", "/code"
_HANDLERS = Path(__file__).with_name("handlers")


class CheckedMembers:
    """A group made from the example, and the numbers that its members have handled."""

    def __init__(self, shop: Shop, group: str, topic: str) -> None:
        """Create nothing yet."""
        self.shop = shop
        self.group = group
        self.topic = topic
        self.pods = f"app={group}"
        self._numbers: Numbers | None = None
        self._handled = shop.folder / group
        self._seen_twice = 0

    def begin(self, replicas: int, queues: int, spec: Document) -> None:
        """
        Create topic, group and pods, and begin to send numbers.

        Each broker has `queues` queues. `spec` is added to the group's own.
        """
        self._handled.mkdir()
        self._handled.chmod(0o777)  # so that pods can write to it as any user
        items = _make(self.group, self.topic, replicas, queues, spec)
        self.shop.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        self.shop.wait_until_made(self.topic)
        self._numbers = Numbers(self.shop.name_server(), self.topic)
        self._numbers.__enter__()

    def end(self) -> None:
        """Stop sending, and remove what was created."""
        self.stop_sending()
        self.shop.kubectl("-n", SHOP, "delete", "deployment", self.group, PATIENTLY)
        self.shop.kubectl("-n", SHOP, "delete", GROUPS, self.group, PATIENTLY)
        self.shop.kubectl("-n", SHOP, "delete", TOPICS, self.topic, PATIENTLY)
        left = wait_patiently(lambda: self.shop.list_pods(self.pods), lambda pods: not pods)
        assert not left

    def stop_sending(self) -> None:
        """Send no more numbers."""
        if self._numbers is not None:
            self._numbers.stop()

    @property
    def sent(self) -> int:
        """How many numbers have been sent so far."""
        assert self._numbers is not None
        assert self._numbers.is_sending, "numbers are still sent"
        return self._numbers.sent

    def scale(self, replicas: int) -> None:
        """Run this number of pods."""
        self.shop.kubectl("-n", SHOP, "scale", f"deployment/{self.group}", f"--replicas={replicas}")

    def roll_out(self) -> None:
        """Replace all pods by new ones, and wait until the status names only the new ones."""
        self.shop.kubectl("-n", SHOP, "rollout", "restart", f"deployment/{self.group}")
        self.shop.roll_out(SHOP, f"deployment/{self.group}")
        old = wait_patiently(self._list_old_pods, lambda found: not found)
        assert not old, f"the status still names {old}"

    def choose_on_outage(self, choice: OnOutage) -> None:
        """Set what members do while no coordinator answers."""
        self.shop.patch(GROUPS, self.group, {"consumers": {"members": {"onOutage": choice.value}}})

    def choose_balance(self, choice: Balance, *, is_ordered: bool = False) -> None:
        """Set how members read."""
        wanted = {"balance": choice.value, "messages": {"ordered": is_ordered}}
        self.shop.patch(GROUPS, self.group, wanted)

    def wait_until_reading(self, choice: Balance, *, is_ordered: bool = False) -> None:
        """Wait until members may read in this way."""
        wanted = (choice.value, is_ordered)
        self.shop.wait_until(
            GROUPS, self.group, lambda it: (it["balance"], it["ordered"]) == wanted
        )

    def list_ready(self) -> list[str]:
        """List the pods that are ready, which means that they have a session."""
        return [
            pod["metadata"]["name"]
            for pod in self.shop.list_pods(self.pods)
            for each in pod["status"].get("conditions") or ()
            if (each["type"], each["status"]) == ("Ready", "True")
        ]

    def read_status(self) -> Document:
        """Read the group's status."""
        return self.shop.read_status(GROUPS, self.group)

    def find_pod(self) -> str:
        """Find the pod of the first slot."""
        pod: str = min(self.read_status()["assignments"], key=lambda it: it["consumer"])["pod"]
        return pod

    def wait_until_followed(self, slots: int) -> Document:
        """Wait until the group has this number of slots, and each queue is read by its owner."""
        return self.shop.wait_until(GROUPS, self.group, lambda it: _is_followed(it, slots))

    def wait_until_popping(self, members: int) -> Document:
        """Wait until so many members of a group that is balanced by message have a session."""
        return self.shop.wait_until(GROUPS, self.group, lambda it: _is_popping(it, members))

    def wait_until_handled(self, count: int) -> None:
        """Wait until all numbers below `count` have been sent and handled."""
        lost = wait_patiently(lambda: self._find_missing(count), lambda found: not found)
        assert not lost, f"{len(lost)} of {count} numbers are lost: {sorted(lost)[:9]}"

    def _list_old_pods(self) -> set[str]:
        """List the pods that the status still names although they are gone or being deleted."""
        new = {
            pod["metadata"]["name"]
            for pod in self.shop.list_pods(self.pods)
            if "deletionTimestamp" not in pod["metadata"]
        }
        return {each.get("pod", "none") for each in self.read_status()["assignments"]} - new

    def _find_missing(self, count: int) -> set[int]:
        assert self._numbers is not None
        return set(range(count)) - self._numbers.unsure - self.count_handled().keys()

    def check(self, most_twice: int | None) -> None:
        """
        Check that all numbers are handled.

        Since the last check, at most `most_twice` numbers may have been handled twice.
        """
        self.wait_until_handled(self.sent)
        handled = self.count_handled()
        twice = handled.total() - len(handled)
        new, self._seen_twice = twice - self._seen_twice, twice
        assert most_twice is None or new <= most_twice, f"{new} were handled twice"

    def list_busy(self) -> set[str]:
        """List the pods that have handled numbers."""
        return {each.name for each in self._handled.iterdir() if each.stat().st_size}

    def count_handled(self) -> Counter[int]:
        """Count how often each number was handled."""
        return Counter(
            int(line)
            for each in self._handled.iterdir()
            for line in each.read_text(encoding="ascii").splitlines()
        )


def _make(group: str, topic: str, replicas: int, queues: int, more: Document) -> list[Document]:
    """Make the objects of the example, but with other names and with an image that exists here."""
    text = _EXAMPLE.read_text(encoding="utf-8").replace("billing", group).replace("orders", topic)
    found = {each["kind"]: each for each in yaml.safe_load_all(text)}
    found["Topic"]["spec"] |= {
        "nameServers": ["rocketmq-namesrv.mq.svc:9876"],
        "provision": {"readQueues": queues, "writeQueues": queues},
    }
    found["ConsumerGroup"]["spec"] |= more
    spec = found["Deployment"]["spec"]
    spec["replicas"] = replicas
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    container |= {
        "image": f"evenkeel-operator:{images.read_version()}",
        "command": ["python", "-m", "follower", "handling:handle"],
    }
    container["resources"]["requests"]["cpu"] = "100m"  # the node has two CPUs
    container["env"] += [
        {"name": "PYTHONPATH", "value": f"{_CODE}:/handlers"},
        {"name": "HANDLED", "value": f"{_STATE}/{group}"},
    ]
    folders = {f"{_CODE}/follower": ROOT / "follower", "/handlers": _HANDLERS}
    for number, (place, folder) in enumerate(folders.items()):
        mount = {"name": f"folder-{number}", "mountPath": place, "readOnly": True}
        container["volumeMounts"].append(mount)
        pod["volumes"].append({"name": mount["name"], "hostPath": {"path": str(folder)}})
    container["volumeMounts"].append({"name": "state", "mountPath": _STATE})
    pod["volumes"].append({"name": "state", "persistentVolumeClaim": {"claimName": "state"}})
    return [found["Topic"], found["ConsumerGroup"], found["Deployment"]]


def _is_popping(status: Document, members: int) -> bool:
    ready = read_condition(status, ConditionType.READY)
    return ready[0] == "True" and status["consumers"] == members


def _is_followed(status: Document, slots: int) -> bool:
    condition = read_condition(status, ConditionType.FOLLOWED)
    return (
        condition == ("True", ConditionReason.READ_BY_OWNERS)
        and len(status["assignments"]) == slots
        and all(each.get("pod") for each in status["assignments"])
    )
