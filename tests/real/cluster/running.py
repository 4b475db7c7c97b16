"""Runs an operator process for tests, and reads and writes objects as a user does."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from contract.kinds import parts
from contract.names import API_VERSION
from sandbox import operator
from sandbox.kubernetes_users import ApiUser
from sandbox.statuses import Document, read_condition
from sandbox.waiting import PATIENCE_SECONDS, wait_for

QUICK_LEASE = ("--lease-duration", "3", "--lease-deadline", "2", "--lease-period", "0.3")


class RunningOperator(operator.RunningOperator):
    """An operator that watches only one namespace, and whose Lease expires soon."""

    def __init__(self, kubeconfig: Path, namespace: str, *options: str) -> None:
        """Start nothing yet."""
        where = ("--namespace", namespace, "--lease-namespace", namespace)
        super().__init__(kubeconfig, *where, *QUICK_LEASE, *options)

    def until_forgotten(self, namespace: str) -> None:
        """Wait until the operator has seen that a namespace has none of our objects any more."""
        of_it = re.compile(rf'^evenkeel_(?:group|topic)_.*namespace="{namespace}"', re.M)
        assert not wait_for(lambda: of_it.search(self.get("/metrics")[1]), lambda it: not it)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            sys.stdout.write(self.log)
        super().__exit__(kind, error, trace)


class Namespace:
    """The objects of one namespace."""

    def __init__(self, name: str, user: ApiUser) -> None:
        """Send all requests as this user."""
        self.name = name
        self.user = user

    def path(self, plural: str, name: str = "", part: str = "") -> str:
        """Return the path of our objects."""
        root = f"/apis/{parts.GROUP}/{parts.VERSION}/namespaces/{self.name}/{plural}"
        return "/".join(filter(None, (root, name, part)))

    def core(self, plural: str, name: str = "", part: str = "") -> str:
        """Return the path of objects of Kubernetes itself."""
        root = f"/api/v1/namespaces/{self.name}/{plural}"
        return "/".join(filter(None, (root, name, part)))

    def make(self, kind: str, name: str, spec: Document, **metadata: Any) -> Document:
        """Create one of our objects."""
        plural = {"Topic": "topics", "ConsumerGroup": "consumergroups"}[kind]
        document = {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {"name": name, **metadata},
            "spec": spec,
        }
        return self._asked("POST", self.path(plural), document, 201)

    def make_known_topic(self, name: str, route: list[Document], **spec: str) -> None:
        """Create a topic whose route was read before, so that a job can start without a broker."""
        self.make("Topic", name, {"nameServers": ["127.0.0.1:1"], **spec})
        self.until("topics", name, lambda it: read_condition(it, "Ready")[0] == "False")
        status = {"brokers": route, "readQueues": 8, "observedGeneration": 1}
        self.patch(self.path("topics", name, "status"), {"status": status})

    def change(self, plural: str, name: str, change: Document) -> Document:
        """Change one of our objects."""
        kind = "application/merge-patch+json"
        return self._asked("PATCH", self.path(plural, name), change, 200, kind)

    def delete(self, path: str) -> None:
        """Delete any object at once."""
        self._asked("DELETE", path, {"gracePeriodSeconds": 0}, 200)

    def empty(self) -> None:
        """Delete all our objects."""
        for plural in ("consumergroups", "topics"):
            self._asked("DELETE", self.path(plural), {"gracePeriodSeconds": 0}, 200)

    def get(self, plural: str, name: str) -> Document:
        """Read one of our objects."""
        return self._asked("GET", self.path(plural, name), None, 200)

    def status(self, plural: str, name: str) -> Document:
        """Read the status of one of our objects; empty if it has none yet."""
        found: Document = self.get(plural, name).get("status") or {}
        return found

    def until(
        self,
        plural: str,
        name: str,
        is_right: Callable[[Document], object],
        seconds: float = PATIENCE_SECONDS,
    ) -> Document:
        """Wait until a status is as expected."""
        seen = wait_for(
            lambda: self.status(plural, name), lambda status: bool(is_right(status)), seconds
        )
        assert is_right(seen), seen
        return seen

    def found(self, path: str) -> Document | None:
        """Read any object; None if it does not exist."""
        answer = self.user.ask("GET", path)
        return answer.body if answer.status == 200 else None

    def patch(self, path: str, change: Document) -> None:
        """Change any object."""
        self._asked("PATCH", path, change, 200, "application/merge-patch+json")

    def claim(self, name: str) -> None:
        """Create a volume claim."""
        spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        document = {"metadata": {"name": name}, "spec": spec}
        self._asked("POST", self.core("persistentvolumeclaims"), document, 201)

    def node(self, name: str, zone: str) -> None:
        """Create a node in a zone."""
        labels = {"topology.kubernetes.io/zone": zone}
        body = {"metadata": {"name": name, "labels": labels}}
        self._asked("POST", "/api/v1/nodes", body, 201)

    def pod(
        self,
        name: str,
        labels: Mapping[str, str],
        owner: Document | None = None,
        node: str = "node-1",
    ) -> None:
        """Create a pod, and set its status to ready."""
        spec = {"containers": [{"name": "main", "image": "nothing"}], "nodeName": node}
        owners = [] if owner is None else [owner]
        metadata = {"name": name, "labels": dict(labels), "ownerReferences": owners}
        self._asked("POST", self.core("pods"), {"metadata": metadata, "spec": spec}, 201)
        self.set_ready(name, "True")

    def bind(self, pod: str, node: str = "node-1") -> None:
        """Put a pod on a node, as the scheduler does."""
        body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
        self._asked("POST", self.core("pods", pod, "binding"), body, 201)

    def set_ready(self, pod: str, ready: str) -> None:
        """Set whether a pod is ready, as the kubelet does."""
        conditions = [{"type": "Ready", "status": ready}]
        self.set_status(pod, {"phase": "Running", "conditions": conditions})

    def set_status(self, pod: str, status: Document) -> None:
        """Set the status of a pod, as the kubelet does."""
        self.patch(self.core("pods", pod, "status"), {"status": status})

    def events(self) -> list[tuple[str, str]]:
        """Read the reasons and messages of all Events."""
        items = self._asked("GET", self.core("events"), None, 200)["items"]
        return [(each["reason"], each["message"]) for each in items]

    def _asked(
        self, method: str, path: str, body: object, code: int, kind: str = "application/json"
    ) -> Document:
        answer = self.user.ask(method, path, body, kind)
        assert answer.status == code, answer.body
        found: Document = answer.body
        return found


def make_namespace(admin: ApiUser, name: str) -> Namespace:
    """Create a namespace and its default service account, as a cluster's controllers do."""
    assert admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
    place = f"/api/v1/namespaces/{name}/serviceaccounts"
    assert admin.ask("POST", place, {"metadata": {"name": "default"}}).status == 201
    return Namespace(name, admin)
