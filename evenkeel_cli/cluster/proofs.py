"""
Finds the credentials of a user: a certificate, a token, a password, or what a plugin returns.

A plugin is a program that a kubeconfig names. Cloud providers use plugins.
"""

import base64
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import msgspec

from evenkeel.cluster.api.api_errors import NoClusterError
from evenkeel_cli.cluster.kubeconfig import ClusterEntry, Plugin, User

PLUGIN_SECONDS = 120.0
"""Time limit for a plugin. It is long, because a plugin may ask a person to log in."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Credentials: a certificate and key as PEM, a token, or a header for basic authentication."""

    certificate: str | None = None
    key: str | None = None
    token: str | None = None
    basic: str | None = None

    @property
    def authorization(self) -> str | None:
        """The Authorization header; None without a token or password."""
        return f"Bearer {self.token}" if self.token else self.basic


def find_proof(user: User, cluster: ClusterEntry, folder: Path) -> Proof:
    """Find the credentials of a user. Relative paths start at `folder`."""
    if user.exec is not None:
        return _run_plugin(user.exec, cluster, folder)
    try:
        certificate = read_data(user.client_certificate_data, user.client_certificate, folder)
        key = read_data(user.client_key_data, user.client_key, folder)
        token = (folder / user.token_file).read_text().strip() if user.token_file else user.token
    except (OSError, ValueError) as error:
        raise NoClusterError(f"the kubeconfig's user cannot be used: {error}") from error
    if token:
        return Proof(certificate, key, token)
    if user.username and user.password:
        both = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        return Proof(certificate, key, basic=f"Basic {both}")
    return Proof(certificate, key)


def read_data(data: str | None, path: str | None, folder: Path) -> str | None:
    """Decode `data`, which is base64 in a kubeconfig. Without `data`, read the file at `path`."""
    if data:
        return base64.b64decode(data).decode()
    return (folder / path).read_text() if path else None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _Credential(msgspec.Struct, frozen=True):
    status: _Status


def _run_plugin(plugin: Plugin, cluster: ClusterEntry, folder: Path) -> Proof:
    """Run a plugin that returns credentials."""
    name = str(folder / plugin.command) if "/" in plugin.command else plugin.command
    command = shutil.which(name)
    if command is None:
        hint = f": {plugin.install_hint.strip()}" if plugin.install_hint else ""
        raise NoClusterError(f"the kubeconfig needs the program {plugin.command}{hint}")
    environment = {each.name: each.value for each in plugin.env or ()}
    try:
        about: dict[str, object] = {"interactive": True}
        if plugin.provide_cluster_info:
            about["cluster"] = _describe_cluster(cluster, folder)
        info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": about}
        ended = subprocess.run(  # noqa: S603 a kubeconfig names the program, and kubectl runs it too
            [command, *(plugin.args or ())],
            env={**os.environ, **environment, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdout=subprocess.PIPE,
            check=True,
            timeout=PLUGIN_SECONDS,
        )
        status = msgspec.json.decode(ended.stdout, type=_Credential).status
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NoClusterError(
            f"the plugin {plugin.command} of the kubeconfig returned no credentials: {error}"
        ) from error
    return Proof(status.client_certificate_data, status.client_key_data, status.token or None)


def _describe_cluster(cluster: ClusterEntry, folder: Path) -> dict[str, object]:
    authorities = read_data(
        cluster.certificate_authority_data, cluster.certificate_authority, folder
    )
    data = base64.b64encode(authorities.encode()).decode() if authorities else None
    found = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": data,
        "proxy-url": cluster.proxy_url,
    }
    return {name: value for name, value in found.items() if value}
