"""
Who reaches the ports at which a job's pods talk Spark: the pods of the same group, and nobody else.

All other ports stay as open as they are, for a template may bring containers with ports of their
own. A pod in its node's network has no address of its own by which it could be let in; there the
ports stay open, and Spark's secret alone keeps others out.
"""

from collections.abc import Iterable

from contract.names import GROUP_LABEL
from evenkeel.cluster.manifest import names, places
from evenkeel.cluster.manifest.names import Document
from evenkeel.objects import ConsumerGroup

API = "networking.k8s.io"
_SPARKS = (places.DRIVER_PORT, places.BLOCKS_PORT)
_LAST_PORT = 65535


def policy(group: ConsumerGroup, specs: Iterable[Document]) -> Document:
    """Make the policy for pods that are specified so."""
    selected = {GROUP_LABEL: group.head.key.name}
    own: Document = {"ports": [_ports(*_SPARKS)]}
    if not any(spec.get("hostNetwork") for spec in specs):
        own["from"] = [{"podSelector": {"matchLabels": selected}}]
    others = [
        _ports(1, _SPARKS[0] - 1),
        _ports(_SPARKS[-1] + 1, _LAST_PORT),
        {"protocol": "UDP"},
        {"protocol": "SCTP"},
    ]
    return {
        "apiVersion": f"{API}/v1",
        "kind": "NetworkPolicy",
        "metadata": names.metadata(group, names.driver(group)),
        "spec": {
            "podSelector": {"matchLabels": selected},
            "policyTypes": ["Ingress"],
            "ingress": [own, {"ports": others}],
        },
    }


def _ports(first: int, last: int) -> Document:
    return {"protocol": "TCP", "port": first, "endPort": last}
