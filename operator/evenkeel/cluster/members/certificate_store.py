"""Keeps the certificates in a Secret that all leaders use, and renews them before they expire."""

import contextlib
import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime

from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_client import Api, Document
from evenkeel.cluster.api.api_errors import NotFoundError
from evenkeel.cluster.members import certificates, documents
from evenkeel.cluster.members.certificates import Certificates
from evenkeel.cluster.members.documents import Place


def _read_clock() -> datetime:
    return datetime.now(UTC)


class CertificateStore:
    """The certificates of the leader."""

    def __init__(self, api: Api, place: Place, clock: Callable[[], datetime] = _read_clock) -> None:
        """Prepare the store. Nothing is read yet."""
        self._api = api
        self._place = place
        self._clock = clock
        self._loaded: Certificates | None = None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        """The TLS settings of new connections, always with the newest certificate."""

    async def renew(self) -> str:
        """Read the certificates, renew them if needed, and return the authorities to trust."""
        path = paths.build_path(paths.SECRETS, self._place.secret)
        found: Document = {}
        with contextlib.suppress(NotFoundError):
            found = await self._api.get(path)
        kept = documents.read_secret(found)
        renewed = certificates.renew(kept, self._place.names, self._clock())
        if not found:
            place = paths.build_list_path(paths.SECRETS, self._place.secret.namespace)
            await self._api.create(place, documents.build_secret(self._place, renewed))
        elif renewed != kept:
            version = found["metadata"]["resourceVersion"]
            await self._api.replace(path, documents.build_secret(self._place, renewed, version))
        if renewed != self._loaded:
            load(self.context, renewed)
            self._loaded = renewed
        return renewed.authorities


def load(context: ssl.SSLContext, found: Certificates) -> None:
    """
    Load a certificate and its key from a file in memory.

    OpenSSL reads only files, and a key must not be written to a disk.
    """
    file = os.memfd_create("evenkeel-members")
    try:
        os.write(file, (found.key + found.certificate).encode())
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
