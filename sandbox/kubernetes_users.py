"""
Makes users of a Kubernetes API, with a certificate or a token, and writes their kubeconfigs.

Each API has its own certificate authority, so no other API accepts its users. A kubeconfig is
written as JSON, which is also YAML, and needs no other file.
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


class ApiAnswer(NamedTuple):
    """The API server's answer to one request."""

    status: int
    body: Any
    """The value decoded from JSON, or else plain text."""


@dataclass(frozen=True)
class ApiUser:
    """A user that the API server accepts; RBAC decides what the user may do."""

    name: str
    kubeconfig: Path
    _host: str
    _port: int
    tls: ssl.SSLContext
    """Contains the certificate of the user, if the user has one."""
    _headers: Mapping[str, str]

    def ask(
        self, method: str, path: str, body: object = None, media_type: str = "application/json"
    ) -> ApiAnswer:
        """Send one request over a new connection; `OSError` if there is no answer."""
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
        return ApiAnswer(answer.status, json.loads(text) if is_json else text)


class Authority:
    """Signs the certificates of one API and of its users, and writes the users' kubeconfigs."""

    def __init__(self, folder: Path, host: str, port: int, *names: str) -> None:
        """Make the authority, and certificates for the API server at `host` and these names."""
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
        """The key and certificate with which the API server calls its nodes."""
        caller.private_key_and_cert_chain_pem.write_to_path(str(self.servers_proof))
        tokens = self._ca.issue_cert("service-accounts")
        tokens.private_key_pem.write_to_path(str(self.service_accounts_key))

    def issue_certificate(self, name: str, group: str | None) -> ApiUser:
        """Make a user with a certificate, in a group."""
        # Go rejects a certificate without a host name, even a client's.
        issued = self._ca.issue_cert("user", common_name=name, organization_name=group)
        tls = self._trust_authority()
        issued.configure_cert(tls)
        proof = {
            "client-certificate-data": _encode(issued.cert_chain_pems[0]),
            "client-key-data": _encode(issued.private_key_pem),
        }
        return ApiUser(name, self._write_kubeconfig(name, proof), self._host, self._port, tls, {})

    def use_token(self, name: str, token: str) -> ApiUser:
        """Make a user with a token that the API has issued."""
        headers = {"Authorization": f"Bearer {token}"}
        kubeconfig = self._write_kubeconfig(name, {"token": token})
        return ApiUser(name, kubeconfig, self._host, self._port, self._trust_authority(), headers)

    def _trust_authority(self) -> ssl.SSLContext:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._ca.configure_trust(tls)
        return tls

    def _write_kubeconfig(self, name: str, proof: Mapping[str, str]) -> Path:
        cluster = {
            "server": f"https://{self._host}:{self._port}",
            "certificate-authority-data": _encode(self._ca.cert_pem),
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


def _encode(pem: trustme.Blob) -> str:
    return base64.b64encode(pem.bytes()).decode()
