"""Configures and starts the programs of a node."""

import json
from collections.abc import Mapping
from pathlib import Path

from sandbox import kubernetes
from sandbox.kubernetes_users import ADMINS, Authority
from sandbox.node import ground, store
from sandbox.node.ground import Ground

NAME = "node-1"
DOMAIN = "cluster.local"
API_NAMES = ("kubernetes.default.svc", "198.19.0.1")
"""The name and the address of the API server for pods: the first address of `SERVICES`."""


class NodeServer(kubernetes.KubernetesServer):
    """A server that counts as ready when it runs. `node.run` waits for the effects of servers."""

    def __init__(self, programs: Mapping[str, Path], on: Ground, authority: Authority) -> None:
        """Claim the ports; start nothing yet."""
        super().__init__(programs, on.place, on.site)
        self._programs = programs
        self._authority = authority
        self._home = on.place.path / f"{self.name}-files"
        self._home.mkdir()

    def _answers(self) -> bool:
        return True

    def _write_kubeconfig(self, user: str, group: str | None = None) -> str:
        return str(self._authority.issue_certificate(user, group).kubeconfig)

    def _write_file(self, name: str, content: object) -> str:
        """Write a string, or a value as JSON, to a file; YAML parsers accept JSON."""
        text = content if isinstance(content, str) else json.dumps(content)
        (self._home / name).write_text(text, encoding="utf-8")
        return str(self._home / name)


class ControllerManager(NodeServer):
    """Runs the controllers, such as deployments and garbage collection."""

    program = "kube-controller-manager"

    def make_flags(self) -> dict[str, str]:
        """Return the server's command-line flags."""
        return {
            "kubeconfig": self._write_kubeconfig("system:kube-controller-manager"),
            "use-service-account-credentials": "true",
            "service-account-private-key-file": str(self._authority.service_accounts_key),
            "root-ca-file": str(self._authority.certificate),
            "leader-elect": "false",
            "secure-port": str(self.port),
        }


class Scheduler(NodeServer):
    """Assigns pods to the node."""

    program = "kube-scheduler"

    def make_flags(self) -> dict[str, str]:
        """Return the server's command-line flags."""
        return {
            "kubeconfig": self._write_kubeconfig("system:kube-scheduler"),
            "leader-elect": "false",
            "secure-port": str(self.port),
        }


class Kubelet(NodeServer):
    """Runs the pods."""

    program = "kubelet"

    def make_flags(self) -> dict[str, str]:
        """Return the server's command-line flags."""
        return {
            "config": self._write_file("config.json", self._make_config()),
            "kubeconfig": self._write_kubeconfig(f"system:node:{NAME}", "system:nodes"),
            "hostname-override": NAME,
            "node-ip": self._site.address,
            "root-dir": str(self._home / "root"),
            "cert-dir": str(self._home / "certificates"),
        }

    def _make_config(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"x509": {"clientCAFile": str(self._authority.certificate)}},
            "containerRuntimeEndpoint": f"unix://{store.SOCKET}",
            "clusterDNS": [self._site.address],
            "clusterDomain": DOMAIN,
            "resolvConf": self._write_file("resolv.conf", ""),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{ground.CGROUP}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            "makeIPTablesUtilChains": False,
            "podLogsDir": str(self._home / "logs"),
            "volumePluginDir": str(self._home / "plugins"),
            # Evict no pod and delete no image, even if the disk of this machine is full.
            "evictionHard": {"memory.available": "100Mi"},
            "imageGCHighThresholdPercent": 100,
        }


class Proxy(NodeServer):
    """Forwards connections of services to pods."""

    program = "kube-proxy"

    def make_flags(self) -> dict[str, str]:
        """Return the server's command-line flags."""
        return {
            "kubeconfig": self._write_kubeconfig("system:kube-proxy"),
            "hostname-override": NAME,
            "proxy-mode": "nftables",
            "cluster-cidr": ground.PODS,
            # Zero leaves the limit unchanged: the whole machine shares this limit.
            "conntrack-max-per-core": "0",
        }


class Dns(NodeServer):
    """Resolves the names of services."""

    program = "coredns"

    def make_flags(self) -> dict[str, str]:
        """Return the server's command-line flags."""
        config = self._write_kubeconfig("dns", ADMINS)
        lines = (
            f"bind {self._site.address}", "errors",
            f"kubernetes {DOMAIN} in-addr.arpa {{", f"kubeconfig {config}", "ttl 1", "}",
        )  # fmt: skip
        return {"conf": self._write_file("Corefile", "\n".join([".:53 {", *lines, "}", ""]))}


class Containerd(NodeServer):
    """Runs containers from the images in its store."""

    program = "containerd"

    def make_flags(self) -> dict[str, str]:
        """Return the server's command-line flags."""
        return {"config": self._write_file("config.toml", self._make_config())}

    def _answers(self) -> bool:
        return self._process.has_said("containerd successfully booted")

    def _make_config(self) -> str:
        networks = self._home / "networks"
        networks.mkdir(exist_ok=True)
        plugins = self._programs["host-local"].parent
        (networks / "node.conflist").write_text(json.dumps(self._make_network()))
        cri = '[plugins."io.containerd.grpc.v1.cri"'
        return f"""\
version = 2
root = "{store.find_folder()}"
state = "{store.STATE}"
[grpc]
address = "{store.SOCKET}"
{cri}]
sandbox_image = "{store.PAUSE}"
# Without this, runc fails where a process may not lower its own oom_score_adj.
restrict_oom_score_adj = true
{cri}.cni]
bin_dir = "{plugins}"
conf_dir = "{networks}"
{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
{cri}.containerd.runtimes.runc.options]
BinaryName = "{self._programs["runc"]}"
"""

    def _make_network(self) -> dict[str, object]:
        addresses = {
            "type": "host-local",
            "dataDir": str(self._home / "addresses"),
            "ranges": [[{"subnet": ground.PODS}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {
            "type": "bridge", "bridge": "pods", "isGateway": True, "hairpinMode": True,
            "ipam": addresses,
        }  # fmt: skip
        return {"cniVersion": "0.4.0", "name": "node", "plugins": [bridge]}


API_FLAGS = {
    "service-cluster-ip-range": ground.SERVICES,
    "endpoint-reconciler-type": "lease",
    "kubelet-preferred-address-types": "InternalIP",
}
"""More flags for the API server of a node."""
