"""
Builds the NetworkPolicy of a job: only pods of its group reach the ports of Spark and of flows.

All other ports stay open, because a template may add containers with ports. A policy cannot select
pods with `hostNetwork`. If a job has such pods, the ports of Spark and of flows stay open, and only
secrets protect them.
"""

from collections.abc import Iterable

from contract.names import FLOW_PORT, GROUP_LABEL
from evenkeel.cluster.manifest import names, pod_paths
from evenkeel.cluster.manifest.names import Document
from evenkeel.objects import ConsumerGroup

API = "networking.k8s.io"
_OWN = (pod_paths.DRIVER_PORT, FLOW_PORT)
_LAST_PORT = 65535


def build_policy(group: ConsumerGroup, specs: Iterable[Document]) -> Document:
    """Build the policy for pods with these specs."""
    selected = {GROUP_LABEL: group.head.key.name}
    own: Document = {"ports": [_build_ports(*_OWN)]}
    if not any(spec.get("hostNetwork") for spec in specs):
        own["from"] = [{"podSelector": {"matchLabels": selected}}]
    others = [
        _build_ports(1, _OWN[0] - 1),
        _build_ports(_OWN[-1] + 1, _LAST_PORT),
        {"protocol": "UDP"},
        {"protocol": "SCTP"},
    ]
    return {
        "apiVersion": f"{API}/v1",
        "kind": "NetworkPolicy",
        "metadata": names.build_metadata(group, names.name_driver(group)),
        "spec": {
            "podSelector": {"matchLabels": selected},
            "policyTypes": ["Ingress"],
            "ingress": [own, {"ports": others}],
        },
    }


def _build_ports(first: int, last: int) -> Document:
    return {"protocol": "TCP", "port": first, "endPort": last}
