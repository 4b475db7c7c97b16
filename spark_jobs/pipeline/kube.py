"""
Talks to the Kubernetes API server, with the credentials of a pod.

Only one thread may use a `KubeApi`: it keeps its connection for the next request. Every request has
a time limit, and every failure is a `KubeError`.
"""

import contextlib
import http.client
import ssl
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

JSON, MERGE = "application/json", "application/merge-patch+json"
ANSWER_SECONDS = 5.0
IDLE_SECONDS = 30.0
"""A connection that was idle for longer may be closing, so it is not used again."""
_FAULTS = (OSError, ValueError, http.client.HTTPException, msgspec.MsgspecError)


class KubeError(Exception):
    """The API server did not answer, or refused the request."""


class KubeMissingError(KubeError):
    """The object does not exist."""


class KubeConflictError(KubeError):
    """The object has changed since it was read."""


_REFUSALS: dict[int, type[KubeError]] = {404: KubeMissingError, 409: KubeConflictError}


def build_path(root: str, namespace: str, plural: str, name: str = "") -> str:
    """Build the path of an object, or of all objects of a kind in a namespace."""
    found = f"{root}/namespaces/{quote(namespace, safe='')}/{plural}"
    return f"{found}/{quote(name, safe='')}" if name else found


class KubeApi:
    """One API server, for one thread."""

    def __init__(self, server: str, credentials: Path) -> None:
        """Open no connection yet."""
        address = urlsplit(server)
        self._host = address.hostname or ""
        self._port = address.port
        self._credentials = credentials
        self._connection: http.client.HTTPSConnection | None = None
        self._used_at = 0.0

    def ask(self, method: str, path: str, body: object = None, media_type: str = JSON) -> Any:
        """Send a request, and return the decoded answer."""
        if time.monotonic() - self._used_at > IDLE_SECONDS:
            self.close()
        try:
            if self._connection is None:
                self._connection = self._connect(ANSWER_SECONDS)
            answer = self._send(self._connection, method, path, body, media_type)
            text = answer.read()
            self._used_at = time.monotonic()
            if answer.status < HTTPStatus.MULTIPLE_CHOICES:
                return msgspec.json.decode(text)
        except _FAULTS as error:
            self.close()
            raise KubeError(f"{method} {path}: {str(error) or type(error).__name__}") from error
        raise _make_error(method, path, answer.status, text)

    def watch(self, path: str, silence_seconds: float) -> Iterator[Any]:
        """Yield events until the server ends the watch, or sends nothing for `silence_seconds`."""
        try:
            with contextlib.closing(self._connect(silence_seconds)) as connection:
                answer = self._send(connection, "GET", path)
                if answer.status != HTTPStatus.OK:
                    raise _make_error("GET", path, answer.status, answer.read())
                while line := answer.readline():
                    yield msgspec.json.decode(line)
        except _FAULTS as error:
            raise KubeError(f"GET {path}: {str(error) or type(error).__name__}") from error

    def close(self) -> None:
        """Drop the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connect(self, seconds: float) -> http.client.HTTPSConnection:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.load_verify_locations(cadata=(self._credentials / "ca.crt").read_text())
        return http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=tls)

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: object = None,
        media_type: str = JSON,
    ) -> http.client.HTTPResponse:
        token = (self._credentials / "token").read_text().strip()  # Kubernetes rotates it
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": JSON,
            "Content-Type": media_type,
            "User-Agent": "evenkeel-job",
        }
        data = None if body is None else msgspec.json.encode(body)
        connection.request(method, path, data, headers)
        return connection.getresponse()


def _make_error(method: str, path: str, status: int, text: bytes) -> KubeError:
    """Make an error from the message in the answer."""
    try:
        message = msgspec.json.decode(text)["message"]
    except (msgspec.MsgspecError, KeyError, TypeError):
        message = text[:200].decode(errors="replace")
    kind = _REFUSALS.get(status, KubeError)
    return kind(f"{method} {path}: HTTP {status}: {message}")
