"""What happens to pods without their doing: killed, frozen, cut off, or the API server away."""

import contextlib
import http
import itertools
from collections.abc import Iterator
from pathlib import Path

from sandbox.kubernetes_users import User
from sandbox.node import store
from sandbox.node.ground import Ground, GroundError
from sandbox.statuses import Document

_numbers = itertools.count(1)


class Faults:
    """Strikes a node."""

    def __init__(self, ground: Ground, admin: User, containerd: Path, api_port: int) -> None:
        """Let nothing happen yet."""
        self._ground = ground
        self._admin = admin
        self._ctr = store.ctr(containerd)
        self._api_port = api_port

    def kill(self, namespace: str, pod: str) -> None:
        """End the first container of a pod at once, as kill -9 does."""
        container = self._container(namespace, pod)
        self._ground.run(*self._ctr, "tasks", "kill", "--signal=SIGKILL", container)

    @contextlib.contextmanager
    def frozen(self, namespace: str, pod: str) -> Iterator[None]:
        """Let no process of its first container run, until left."""
        container = self._container(namespace, pod)
        self._ground.run(*self._ctr, "tasks", "pause", container)
        try:
            yield
        finally:
            with contextlib.suppress(GroundError):  # it may have been ended meanwhile
                self._ground.run(*self._ctr, "tasks", "resume", container)

    @contextlib.contextmanager
    def cut_off(self, namespace: str, pod: str) -> Iterator[None]:
        """Drop all that a pod sends or is sent, and tell nobody, until left."""
        address = self._pod(namespace, pod)["status"].get("podIP")
        if address is None:
            raise GroundError(f"{namespace}/{pod} has no address yet")
        with self._dropped(f"ip saddr {address}", f"ip daddr {address}"):
            yield

    @contextlib.contextmanager
    def without_api(self) -> Iterator[None]:
        """Drop all that pods send to the API server, until left."""
        with self._dropped(f'iifname "pods" tcp dport {self._api_port}'):
            yield

    @contextlib.contextmanager
    def with_slow_api(self, lost_percent: int) -> Iterator[None]:
        """
        Drop some of what pods send to the API server, until left.

        TCP sends it again later and later, so answers take seconds. No delay is given to packets,
        for not every kernel is built with what does that.
        """
        share = f"numgen random mod 100 < {lost_percent}"
        with self._dropped(f'iifname "pods" tcp dport {self._api_port} {share}'):
            yield

    @contextlib.contextmanager
    def _dropped(self, *what: str) -> Iterator[None]:
        table = f"evenkeel_fault_{next(_numbers)}"
        rules = "; ".join(f"{each} drop" for each in what)
        chains = " ".join(
            f"chain {hook} {{ type filter hook {hook} priority -300; {rules}; }};"
            for hook in ("input", "forward")
        )
        self._ground.run("nft", f"table inet {table} {{ {chains} }}")
        try:
            yield
        finally:
            self._ground.run("nft", f"delete table inet {table}")

    def _pod(self, namespace: str, pod: str) -> Document:
        answer = self._admin.ask("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")
        if answer.status != http.HTTPStatus.OK:
            raise GroundError(f"there is no pod {namespace}/{pod}")
        found: Document = answer.body
        return found

    def _container(self, namespace: str, pod: str) -> str:
        statuses = self._pod(namespace, pod)["status"].get("containerStatuses", [])
        if not statuses or "containerID" not in statuses[0]:
            raise GroundError(f"{namespace}/{pod} has no container yet")
        found: str = statuses[0]["containerID"]
        return found.removeprefix("containerd://")
