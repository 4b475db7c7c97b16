"""
Who calls a Kubernetes API, by a certificate or by a token: a kubeconfig, and plain requests.

An authority of its own signs all certificates of one API, so no other API accepts them. A
kubeconfig is JSON, which is YAML too, and holds all that it needs.
"""

import base64
import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import trustme

ADMINS = "system:masters"
_ANSWER_SECONDS = 30.0


class Answer(NamedTuple):
    """What the API said."""

    status: int
    body: Any
    """Read from JSON, or the text as it is."""


@dataclass(frozen=True)
class User:
    """Somebody whom the API knows, whatever it lets them do."""

    name: str
    kubeconfig: Path
    _host: str
    _port: int
    tls: ssl.SSLContext
    """Proves who they are, if a certificate does."""
    _headers: Mapping[str, str]

    def ask(
        self, method: str, path: str, body: object = None, media_type: str = "application/json"
    ) -> Answer:
        """Send one request over a connection of its own; an `OSError` when nobody answers."""
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=_ANSWER_SECONDS, context=self.tls
        )
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {**self._headers, "Content-Type": media_type})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        is_json = answer.headers.get_content_type() == "application/json"
        return Answer(answer.status, json.loads(text) if is_json else text)


class Authority:
    """Signs the certificates of one API and of its users, and writes their kubeconfigs."""

    def __init__(self, folder: Path, host: str, port: int, *names: str) -> None:
        """Make it, and what the API itself needs, which is known by more names to some."""
        self._folder = folder
        self._host = host
        self._port = port
        self._ca = trustme.CA()
        folder.mkdir()
        self.certificate = folder / "ca.pem"
        self.servers_certificate = folder / "server.pem"
        self.servers_key = folder / "server-key.pem"
        self.service_accounts_key = folder / "service-accounts-key.pem"
        self._ca.cert_pem.write_to_path(str(self.certificate))
        server = self._ca.issue_cert(host, "localhost", *names)
        server.cert_chain_pems[0].write_to_path(str(self.servers_certificate))
        server.private_key_pem.write_to_path(str(self.servers_key))
        caller = self._ca.issue_cert("user", common_name="api-server", organization_name=ADMINS)
        self.servers_proof = folder / "api-server.pem"
        """With which the API calls its nodes, key and certificate in one."""
        caller.private_key_and_cert_chain_pem.write_to_path(str(self.servers_proof))
        tokens = self._ca.issue_cert("service-accounts")
        tokens.private_key_pem.write_to_path(str(self.service_accounts_key))

    def by_certificate(self, name: str, group: str | None) -> User:
        """Make a user of this name, in a group."""
        # Go accepts no certificate that names no host, not even a client's.
        issued = self._ca.issue_cert("user", common_name=name, organization_name=group)
        tls = self._trusting()
        issued.configure_cert(tls)
        proof = {
            "client-certificate-data": _encoded(issued.cert_chain_pems[0]),
            "client-key-data": _encoded(issued.private_key_pem),
        }
        return User(name, self._kubeconfig(name, proof), self._host, self._port, tls, {})

    def by_token(self, name: str, token: str) -> User:
        """Make a user of the name and token that the API itself has given."""
        headers = {"Authorization": f"Bearer {token}"}
        kubeconfig = self._kubeconfig(name, {"token": token})
        return User(name, kubeconfig, self._host, self._port, self._trusting(), headers)

    def _trusting(self) -> ssl.SSLContext:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._ca.configure_trust(tls)
        return tls

    def _kubeconfig(self, name: str, proof: Mapping[str, str]) -> Path:
        cluster = {
            "server": f"https://{self._host}:{self._port}",
            "certificate-authority-data": _encoded(self._ca.cert_pem),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": cluster}],
            "users": [{"name": name, "user": proof}],
            "contexts": [{"name": name, "context": {"cluster": "sandbox", "user": name}}],
            "current-context": name,
        }
        path = self._folder / f"{quote(name, safe='')}.kubeconfig"
        path.write_text(json.dumps(config, indent=2), encoding="utf-8")
        return path


def _encoded(pem: trustme.Blob) -> str:
    return base64.b64encode(pem.bytes()).decode()
