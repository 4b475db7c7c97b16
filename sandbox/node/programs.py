"""Provides the programs of a node: builds Kubernetes and CoreDNS, takes the rest from Debian."""

from pathlib import Path

from sandbox import debian, go, kubernetes

_BUILT = (
    *(
        kubernetes.make_program(name)
        for name in ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
    ),
    go.GoProgram("coredns", "github.com/coredns/coredns", "v1.15.0"),
)
_UNPACKED = {
    "containerd": ("containerd", "usr/bin/containerd"),
    "runc": ("runc", "usr/sbin/runc"),
    "host-local": ("containernetworking-plugins", "usr/lib/cni/host-local"),
}
"""By program: Debian's package, and the path of the program in the package."""


def build() -> dict[str, Path]:
    """Build and download the programs, unless that is done already."""
    debian.install("nftables", program="nft")
    unpacked = {name: debian.find_program(*where) for name, where in _UNPACKED.items()}
    return {**kubernetes.build(), **{each.name: go.build(each) for each in _BUILT}, **unpacked}
