"""
Starts a whole Kubernetes 1.34.4 of one node, with real pods; needs root and a Debian.

    with node.started() as cluster:
        cluster.admin.ask("GET", "/api/v1/nodes")

It is ready when entered: etcd, API server, controllers, scheduler, kubelet with containerd, the
proxy of services and DNS, and the project's own images. When left, or when this process is killed,
nothing of it is there any more but what is kept in the cache: no process, mount, interface or rule.
It lives in namespaces of its own (`sandbox.node.ground`), whose addresses this machine can reach.
"""

import contextlib
import http
from collections.abc import Iterator
from dataclasses import dataclass

from sandbox import kubernetes, progress
from sandbox.kubernetes_users import User
from sandbox.node import ground, programs, servers, store
from sandbox.node.faults import Faults
from sandbox.waiting import eventually

_READY_SECONDS = 60.0


@dataclass(frozen=True)
class Node:
    """What `started` has started."""

    url: str
    admin: User
    """May do everything."""
    faults: Faults


def built() -> None:
    """Build and fetch all that takes long, unless it was done before."""
    ground.check()
    programs.made()
    store.built()


@contextlib.contextmanager
def started() -> Iterator[Node]:
    """Run a node."""
    ground.check()
    made, images = programs.made(), store.built()
    with ground.made() as on, contextlib.ExitStack() as claims:
        etcd = kubernetes.Etcd(made, on.place, on.site)
        api = kubernetes.ApiServer(
            made, on.place, etcd, servers.API_FLAGS, on.site, servers.API_NAMES
        )
        containerd = servers.Containerd(made, on, api.authority)
        others = [
            kind(made, on, api.authority)
            for kind in (
                servers.ControllerManager, servers.Scheduler, servers.Kubelet, servers.Proxy,
                servers.Dns,
            )
        ]  # fmt: skip
        for server in (containerd, etcd, api, *others):
            claims.callback(server.release)
        for server in (containerd, etcd, api):
            server.start()
        containerd.wait_until_ready()
        store.fill(on, made["containerd"], images)
        for server in (etcd, api):
            server.wait_until_ready()
        for server in others:
            server.start()
        _wait(api.admin)
        yield Node(api.url, api.admin, Faults(on, api.admin, made["containerd"], api.port))


def _wait(admin: User) -> None:
    """Return when the node takes pods."""
    progress.say("the node starts")
    seen = eventually(lambda: _missing(admin), lambda missing: not missing, _READY_SECONDS)
    if seen:
        raise ground.GroundError(f"the node is not ready after {_READY_SECONDS:g} s: {seen}")


def _missing(admin: User) -> str:
    """Say what is not there yet; empty when all is."""
    node = admin.ask("GET", f"/api/v1/nodes/{servers.NAME}")
    if node.status != http.HTTPStatus.OK:
        return "the kubelet has not told its node"
    ready = [each for each in node.body["status"]["conditions"] if each["type"] == "Ready"]
    if not ready or ready[0]["status"] != "True":
        return ready[0]["message"] if ready else "the node says nothing of itself"
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    if admin.ask("GET", account).status != http.HTTPStatus.OK:
        return "the controllers have made no account for pods"
    return ""
