"""How a job reaches RocketMQ: credentials and authorities, as its topics name them."""

from collections.abc import Mapping
from dataclasses import dataclass

from contract.kinds.topics import Tls
from contract.names import ACCESS_KEY, SECRET_KEY
from evenkeel.cluster.manifest import places
from evenkeel.cluster.manifest.names import Document
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic

VOLUME = "evenkeel-tls"
_ENVIRONMENT = {ACCESS_KEY: "accessKey", SECRET_KEY: "secretKey"}


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """What a process needs besides the name servers. No secret is in it, only its name."""

    secret: str | None
    tls: Tls | None

    @property
    def option(self) -> str | None:
        """Say to the source how to speak; None: plainly."""
        if self.tls is None:
            return None
        return f"{places.AUTHORITIES}/{places.AUTHORITIES_FILE}" if self._authorities else "true"

    @property
    def environment(self) -> list[Document]:
        """Hand the credentials over, unread."""
        if self.secret is None:
            return []
        return [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": self.secret, "key": key}}}
            for name, key in _ENVIRONMENT.items()
        ]

    @property
    def volumes(self) -> list[Document]:
        """Bring the authorities in, and nothing else of their Secret."""
        if self._authorities is None:
            return []
        items = [{"key": places.AUTHORITIES_FILE, "path": places.AUTHORITIES_FILE}]
        return [{"name": VOLUME, "secret": {"secretName": self._authorities, "items": items}}]

    @property
    def mounts(self) -> list[Document]:
        """Place the volumes."""
        mount = {"name": VOLUME, "mountPath": places.AUTHORITIES, "readOnly": True}
        return [mount] if self._authorities else []

    @property
    def _authorities(self) -> str | None:
        ref = self.tls.ca_secret_ref if self.tls else None
        return ref.name if ref else None


def of(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> ClusterAccess:
    """Find what all topics of a group agree on."""
    found = [_named(group, topics, key) for key in group.topic_keys]
    for topic in found:
        if topic.spec.tls is not None and topic.spec.tls.insecure_skip_verify:
            raise ManifestError(
                f"{topic}: spec.tls.insecureSkipVerify is not for jobs, here {group}: "
                "give spec.tls.caSecretRef"
            )
    ways = {(topic.spec.credentials_secret_ref, topic.spec.tls) for topic in found}
    if len(ways) > 1:
        raise ManifestError(
            f"{group}: its topics differ in credentialsSecretRef or tls, and one job has one of "
            "each: make them the same, or make a group each"
        )
    ((secret, tls),) = ways
    return ClusterAccess(secret.name if secret else None, tls)


def _named(group: ConsumerGroup, topics: Mapping[Key, Topic], key: Key) -> Topic:
    if key not in topics:
        raise ManifestError(f"{group}: there is no Topic {key}; make it, or leave it out")
    return topics[key]
