"""Builds the objects by which members find the leader and trust it. Pure."""

import base64
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel.cluster.manifest.names import OURS, Document
from evenkeel.cluster.members.certificates import Certificates
from evenkeel.objects import Key

PORT_NAME = "members"
TRUST = "evenkeel-members"
"""The ConfigMap that pods mount."""
AUTHORITIES, ADDRESS = "ca.crt", "coordinator"
"""The entries of this ConfigMap."""
_ENTRIES = {
    "authorities": "ca.crt",
    "authority_key": "ca.key",
    "certificate": "tls.crt",
    "key": "tls.key",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where members find the leader."""

    service: Key
    """A Service without a selector. The leader writes its only endpoint."""
    address: str
    """IP address of this pod."""
    port: int

    @property
    def url(self) -> str:
        """The address for members. It is the same, whichever replica leads."""
        return f"https://{self.service.name}.{self.service.namespace}.svc:{self.port}"

    @property
    def names(self) -> Sequence[str]:
        """The names in the certificate. `localhost` is for `kubectl port-forward`."""
        name = f"{self.service.name}.{self.service.namespace}.svc"
        return [name, f"{name}.cluster.local", "localhost"]

    @property
    def secret(self) -> Key:
        """The Secret that contains the certificates."""
        return Key(self.service.namespace, f"{self.service.name}-tls")


def build_endpoint_slice(place: Place) -> Document:
    """Build the EndpointSlice that directs connections of the Service to this pod."""
    version = ipaddress.ip_address(place.address).version
    labels = {
        "kubernetes.io/service-name": place.service.name,
        "endpointslice.kubernetes.io/managed-by": "evenkeel.dev",
        **OURS,
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": _build_metadata(
            Key(place.service.namespace, f"{place.service.name}-leader"), labels
        ),
        "addressType": f"IPv{version}",
        "ports": [{"name": PORT_NAME, "port": place.port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [place.address], "conditions": {"ready": True}}],
    }


def build_trust(place: Place, namespace: str, authorities: str) -> Document:
    """Build the ConfigMap with the coordinator's address and the authorities to trust."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _build_metadata(Key(namespace, TRUST), OURS),
        "data": {AUTHORITIES: authorities, ADDRESS: place.url},
    }


def is_ours(document: Mapping[str, Any]) -> bool:
    """Whether an object was written by an operator."""
    labels = document["metadata"].get("labels") or {}
    return OURS.items() <= labels.items()


def build_secret(place: Place, kept: Certificates, version: str = "") -> Document:
    """Build the Secret. `version` is the resource version of the Secret that it replaces."""
    data = {
        entry: base64.b64encode(getattr(kept, name).encode()).decode()
        for name, entry in _ENTRIES.items()
    }
    metadata = _build_metadata(place.secret, OURS)
    if version:
        metadata["resourceVersion"] = version
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def read_secret(document: Mapping[str, Any]) -> Certificates | None:
    """Read the certificates from the Secret; None if an entry is missing or is not text."""
    data = document.get("data") or {}
    try:
        found = {name: base64.b64decode(data[entry]).decode() for name, entry in _ENTRIES.items()}
    except (KeyError, ValueError):
        return None
    return Certificates(**found)


def _build_metadata(key: Key, labels: Mapping[str, str]) -> Document:
    return {"name": key.name, "namespace": key.namespace, "labels": dict(labels)}
