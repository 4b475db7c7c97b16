"""
Starts a whole Kubernetes 1.34.4 with one node and real pods; needs root and Debian.

    with node.run() as cluster:
        cluster.admin.ask("GET", "/api/v1/nodes")

When the block begins, these are ready: etcd, API server, controllers, scheduler, kubelet with
containerd, service proxy, DNS, and the project's own images. When the block ends, or when this
process is killed, only the cache is left: no process, mount, interface or rule. The node runs in
separate Linux namespaces (`sandbox.node.ground`), whose addresses this machine can reach.
"""

import contextlib
import http
from collections.abc import Iterator
from dataclasses import dataclass

from sandbox import kubernetes, progress
from sandbox.kubernetes_users import ApiUser
from sandbox.node import ground, programs, servers, store
from sandbox.node.faults import Faults
from sandbox.waiting import wait_for

_READY_SECONDS = 60.0


@dataclass(frozen=True)
class SandboxNode:
    """The node that `run` has started."""

    url: str
    admin: ApiUser
    """A user with all rights."""
    faults: Faults


def build() -> None:
    """Build and download everything that takes long, unless that is done already."""
    ground.check()
    programs.build()
    store.build()


@contextlib.contextmanager
def run() -> Iterator[SandboxNode]:
    """Run a node."""
    ground.check()
    made, images = programs.build(), store.build()
    with ground.make() as on, contextlib.ExitStack() as claims:
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
        _wait_until_ready(api.admin)
        yield SandboxNode(api.url, api.admin, Faults(on, api.admin, made["containerd"], api.port))


def _wait_until_ready(admin: ApiUser) -> None:
    """Wait until the node accepts pods."""
    progress.say("the node starts")
    seen = wait_for(lambda: _find_missing(admin), lambda missing: not missing, _READY_SECONDS)
    if seen:
        raise ground.GroundError(f"the node is not ready after {_READY_SECONDS:g} s: {seen}")


def _find_missing(admin: ApiUser) -> str:
    """Describe what is missing; return an empty string if nothing is."""
    node = admin.ask("GET", f"/api/v1/nodes/{servers.NAME}")
    if node.status != http.HTTPStatus.OK:
        return "the kubelet has not registered its node"
    ready = [each for each in node.body["status"]["conditions"] if each["type"] == "Ready"]
    if not ready or ready[0]["status"] != "True":
        return ready[0]["message"] if ready else "the node has no condition Ready"
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    if admin.ask("GET", account).status != http.HTTPStatus.OK:
        return "the controllers have not created the service account of pods"
    return ""
