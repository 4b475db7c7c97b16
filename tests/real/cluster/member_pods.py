"""Pods as members: their tokens, and requests as any HTTP client sends them."""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sandbox.statuses import Document
from sandbox.waiting import wait_for
from tests.real.cluster.running import Namespace

SERVICE, ADDRESS = "evenkeel-members", "10.1.2.3"
LABELS = {"app": "billing"}
ROUTE = [{"broker": "broker-a", "readQueues": 4, "writeQueues": 4}]
SESSION_SECONDS = 2
RUNNING: Document = {
    "name": "main", "image": "nothing", "imageID": "", "ready": False, "restartCount": 0,
    "state": {"running": {}},
}  # fmt: skip
"""The status that the kubelet writes for a container that has not ended yet."""


def make_group(
    namespace: Namespace,
    session: float = SESSION_SECONDS,
    group: str = "billing",
    grace: str = "60s",
) -> None:
    """Make a group whose members are pods, and a topic with four queues if there is none."""
    if namespace.found(namespace.path("topics", "orders")) is None:
        namespace.make("Topic", "orders", {"route": ROUTE})
    terms = {"session": f"{session:g}s", "selector": {"matchLabels": LABELS}}
    spec = {
        "topics": [{"name": "orders"}],
        "group": group,
        "consumers": {"members": terms},
        "rebalance": {"grace": grace},
    }
    namespace.make("ConsumerGroup", "billing", spec)


def issue_token(
    namespace: Namespace, pod: str | None, audience: str = "evenkeel", account: str = "default"
) -> str:
    """Issue a token as the kubelet does for a projected volume."""
    spec: Document = {"audiences": [audience], "expirationSeconds": 600}
    if pod is not None:
        found = namespace.found(namespace.core("pods", pod))
        assert found is not None
        uid = found["metadata"]["uid"]
        spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
    path = namespace.core("serviceaccounts", account, "token")
    answer = namespace.user.ask("POST", path, {"spec": spec})
    assert answer.status == 201, answer.body
    token: str = answer.body["status"]["token"]
    return token


def read_trust(namespace: Namespace) -> Mapping[str, str]:
    """Wait for the ConfigMap that pods mount, and read it."""
    path = namespace.core("configmaps", "evenkeel-members")
    found = wait_for(lambda: namespace.found(path), bool)
    assert found is not None
    data: dict[str, str] = found["data"]
    return data


@dataclass
class Pod:
    """A pod that sends requests as a member."""

    namespace: Namespace
    name: str
    port: int
    token: str
    authorities: str
    session: str = "s1"
    client_id: str = ""
    number: int = 0
    revision: int = 0
    holds: list[Document] = field(default_factory=list)

    def ask(self, **changed: str) -> tuple[int, Document]:
        """
        Send the next request, and hold the granted queues, as a member without messages does.

        `changed` replaces parts of the path, or the token.
        """
        self.number += 1
        body = {
            "session": self.session,
            "number": self.number,
            "revision": self.revision,
            "holds": self.holds,
            "waitSeconds": 0.0,
            "clientId": self.client_id,
        }
        status, answer = self.send("POST", body, **changed)
        if status == 200:
            self.revision, self.holds = answer["revision"], answer["grants"]
        return status, answer

    def begin(self) -> None:
        """Begin a new session."""
        self.session += "-next"
        self.number, self.revision, self.holds = 0, 0, []

    def say_ended(self, *beside: Document, **status: Any) -> None:
        """
        Report, as the kubelet does, that a container of the pod ended.

        The reported time of the end is one hour from now. `beside` has the statuses of
        the pod's other containers.
        """
        finished = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = {"terminated": {"exitCode": 137, "finishedAt": finished}}
        containers = [{**RUNNING, "restartCount": 1, "lastState": ended}, *beside]
        self.namespace.set_status(self.name, {"containerStatuses": containers, **status})

    def leave(self) -> int:
        """End the session."""
        return self.send("DELETE", query=f"?session={self.session}")[0]

    def send(
        self,
        method: str,
        body: Any = None,
        *,
        namespace: str | None = None,
        group: str = "billing",
        member: str | None = None,
        token: str | None = None,
        query: str = "",
    ) -> tuple[int, Document]:
        """Send a request over TLS to `localhost`, a name that is in the certificate."""
        path = f"/v1/groups/{namespace or self.namespace.name}/{group}/members/"
        path += (member or self.name) + query
        tls = ssl.create_default_context(cadata=self.authorities)
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=60, context=tls)
        try:
            headers = {"Authorization": f"Bearer {token or self.token}"}
            connection.request(method, path, json.dumps(body).encode(), headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else {}
        finally:
            connection.close()


def until_granted(*wanted: tuple[Pod, str]) -> list[Document]:
    """Let pods ask by turns until each is granted exactly these queues; return the answers."""

    def ask() -> list[Document]:
        return [pod.ask()[1] for pod, _ in wanted]

    def is_right(answers: list[Document]) -> bool:
        found = [[each["ids"] for each in one.get("grants", [{"ids": "?"}])] for one in answers]
        return found == [[ids] if ids else [] for _, ids in wanted]

    answers = wait_for(ask, is_right)
    assert is_right(answers), answers
    return answers


def join(namespace: Namespace, name: str, port: int, owner: Document | None = None) -> Pod:
    """Make a pod, and whatever the kubelet mounts for it."""
    namespace.pod(name, LABELS, owner)
    authorities = read_trust(namespace)["ca.crt"]
    return Pod(namespace, name, port, issue_token(namespace, name), authorities)
