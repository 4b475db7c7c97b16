"""Causes faults: kills, freezes or disconnects pods, or makes the API server unreachable."""

import contextlib
import http
import itertools
from collections.abc import Iterator
from pathlib import Path

from sandbox.kubernetes_users import ApiUser
from sandbox.node import store
from sandbox.node.ground import Ground, GroundError
from sandbox.statuses import Document

_numbers = itertools.count(1)


class Faults:
    """Causes faults on a node."""

    def __init__(self, ground: Ground, admin: ApiUser, containerd: Path, api_port: int) -> None:
        """Cause nothing yet."""
        self._ground = ground
        self._admin = admin
        self._ctr = store.make_ctr_command(containerd)
        self._api_port = api_port

    def kill(self, namespace: str, pod: str) -> None:
        """Kill the first container of a pod, as kill -9 does."""
        container = self._find_container(namespace, pod)
        self._ground.run(*self._ctr, "tasks", "kill", "--signal=SIGKILL", container)

    @contextlib.contextmanager
    def freeze(self, namespace: str, pod: str) -> Iterator[None]:
        """Freeze all processes of a pod's first container, until the block ends."""
        container = self._find_container(namespace, pod)
        self._ground.run(*self._ctr, "tasks", "pause", container)
        try:
            yield
        finally:
            with contextlib.suppress(GroundError):  # the container may have ended meanwhile
                self._ground.run(*self._ctr, "tasks", "resume", container)

    @contextlib.contextmanager
    def cut_off(self, namespace: str, pod: str) -> Iterator[None]:
        """Drop all packets from and to a pod, without an answer, until the block ends."""
        address = self._read_pod(namespace, pod)["status"].get("podIP")
        if address is None:
            raise GroundError(f"{namespace}/{pod} has no address yet")
        with self._drop(f"ip saddr {address}", f"ip daddr {address}"):
            yield

    @contextlib.contextmanager
    def stop_api(self) -> Iterator[None]:
        """Drop all packets from pods to the API server, until the block ends."""
        with self._drop(f'iifname "pods" tcp dport {self._api_port}'):
            yield

    @contextlib.contextmanager
    def slow_api(self, lost_percent: int) -> Iterator[None]:
        """
        Drop some packets from pods to the API server, until the block ends.

        TCP sends lost packets again after growing pauses, so answers take seconds. Packets are lost
        and not just delayed, because not every kernel supports delays.
        """
        share = f"numgen random mod 100 < {lost_percent}"
        with self._drop(f'iifname "pods" tcp dport {self._api_port} {share}'):
            yield

    @contextlib.contextmanager
    def _drop(self, *what: str) -> Iterator[None]:
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

    def _read_pod(self, namespace: str, pod: str) -> Document:
        answer = self._admin.ask("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")
        if answer.status != http.HTTPStatus.OK:
            raise GroundError(f"there is no pod {namespace}/{pod}")
        found: Document = answer.body
        return found

    def _find_container(self, namespace: str, pod: str) -> str:
        statuses = self._read_pod(namespace, pod)["status"].get("containerStatuses", [])
        if not statuses or "containerID" not in statuses[0]:
            raise GroundError(f"{namespace}/{pod} has no container yet")
        found: str = statuses[0]["containerID"]
        return found.removeprefix("containerd://")
