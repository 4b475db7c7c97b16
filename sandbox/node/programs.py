"""What a node consists of: Kubernetes' own commands and CoreDNS built, the rest from Debian."""

from pathlib import Path

from sandbox import debian, go, kubernetes

_BUILT = (
    *(
        kubernetes.of_kubernetes(name)
        for name in ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
    ),
    go.Program("coredns", "github.com/coredns/coredns", "v1.15.0"),
)
_UNPACKED = {
    "containerd": ("containerd", "usr/bin/containerd"),
    "runc": ("runc", "usr/sbin/runc"),
    "host-local": ("containernetworking-plugins", "usr/lib/cni/host-local"),
}
"""By the names of the programs: Debian's package, and where it has them."""


def made() -> dict[str, Path]:
    """Build and fetch them, unless it was done before."""
    debian.install("nftables", program="nft")
    unpacked = {name: debian.program(*where) for name, where in _UNPACKED.items()}
    return {**kubernetes.built(), **{each.name: go.built(each) for each in _BUILT}, **unpacked}
