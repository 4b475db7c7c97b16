"""Finds how a job connects to RocketMQ: the credentials and TLS settings of its topics."""

from collections.abc import Mapping
from dataclasses import dataclass

from contract.kinds.topics import Tls
from contract.names import ACCESS_KEY, SECRET_KEY
from evenkeel.cluster.manifest import pod_paths
from evenkeel.cluster.manifest.names import Document
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic

VOLUME = "evenkeel-tls"
_ENVIRONMENT = {ACCESS_KEY: "accessKey", SECRET_KEY: "secretKey"}


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Credentials and TLS settings of a process, as names of Secrets without their content."""

    secret: str | None
    tls: Tls | None

    @property
    def option(self) -> str | None:
        """The TLS option of the source; None without TLS."""
        if self.tls is None:
            return None
        return (
            f"{pod_paths.AUTHORITIES}/{pod_paths.AUTHORITIES_FILE}" if self._authorities else "true"
        )

    @property
    def environment(self) -> list[Document]:
        """The credentials as environment variables from a Secret."""
        if self.secret is None:
            return []
        return [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": self.secret, "key": key}}}
            for name, key in _ENVIRONMENT.items()
        ]

    @property
    def volumes(self) -> list[Document]:
        """The volume with the certificates from the Secret, without the Secret's other entries."""
        if self._authorities is None:
            return []
        items = [{"key": pod_paths.AUTHORITIES_FILE, "path": pod_paths.AUTHORITIES_FILE}]
        return [{"name": VOLUME, "secret": {"secretName": self._authorities, "items": items}}]

    @property
    def mounts(self) -> list[Document]:
        """The mounts of the volumes."""
        mount = {"name": VOLUME, "mountPath": pod_paths.AUTHORITIES, "readOnly": True}
        return [mount] if self._authorities else []

    @property
    def _authorities(self) -> str | None:
        ref = self.tls.ca_secret_ref if self.tls else None
        return ref.name if ref else None


def find_access(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> ClusterAccess:
    """Find the access that all topics of a group share."""
    found = [_find_topic(group, topics, key) for key in group.topic_keys]
    for topic in found:
        if topic.spec.tls is not None and topic.spec.tls.insecure_skip_verify:
            raise ManifestError(
                f"{topic}: spec.tls.insecureSkipVerify cannot be used with the job of {group}: "
                "set spec.tls.caSecretRef"
            )
    ways = {(topic.spec.credentials_secret_ref, topic.spec.tls) for topic in found}
    if len(ways) > 1:
        raise ManifestError(
            f"{group}: its topics differ in credentialsSecretRef or tls, but a job has only one of "
            "each: make them equal, or create a group for each topic"
        )
    ((secret, tls),) = ways
    return ClusterAccess(secret.name if secret else None, tls)


def _find_topic(group: ConsumerGroup, topics: Mapping[Key, Topic], key: Key) -> Topic:
    if key not in topics:
        raise ManifestError(
            f"{group}: there is no Topic {key}; create it, or remove it from spec.topics"
        )
    return topics[key]
