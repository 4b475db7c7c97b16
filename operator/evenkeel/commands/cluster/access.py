"""
How to reach a cluster, and as whom: by a kubeconfig, else as a pod by its service account.

Proofs of who somebody is may be certificates, tokens, passwords, and programs that tell one.
"""

import base64
import json
import os
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from evenkeel.commands.cluster import kubeconfig
from evenkeel.commands.cluster.kubeconfig import Cluster, NoClusterError, Plugin, User
from evenkeel.objects import DEFAULT_NAMESPACE

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_A_POD = "https://kubernetes.default.svc"
PLUGIN_SECONDS = 120.0
"""People may have to log in meanwhile."""


@dataclass(frozen=True, slots=True)
class Access:
    """What every request needs."""

    server: str
    namespace: str
    """Where objects are looked for if nobody says where."""
    tls: ssl.SSLContext
    headers: Mapping[str, str]
    proxy: str | None = None


def found(named: str | None = None, context: str | None = None) -> Access:
    """Find the way to the cluster of a context; by default of the current one."""
    config = kubeconfig.read(named)
    name = context or config.current
    if not name and named is None and (ACCOUNT / "token").exists():
        return _of_account()
    if not name:
        raise NoClusterError(
            "no kubeconfig says which cluster to ask: give --kubeconfig, set KUBECONFIG, or choose "
            "one with kubectl config use-context"
        )
    if name not in config.contexts:
        known = ", ".join(config.contexts) or "none"
        raise NoClusterError(f"the kubeconfig has no context {name}; it has: {known}")
    chosen = config.contexts[name]
    if chosen.cluster not in config.clusters:
        raise NoClusterError(f"the kubeconfig has no cluster {chosen.cluster}, of context {name}")
    if chosen.user and chosen.user not in config.users:
        raise NoClusterError(f"the kubeconfig has no user {chosen.user}, of context {name}")
    cluster, folder = config.clusters[chosen.cluster]
    user, users_folder = config.users.get(chosen.user, (User(), folder))
    return _access(cluster, folder, _proven(user, cluster, users_folder), chosen.namespace)


def _of_account() -> Access:
    cluster = Cluster(IN_A_POD, certificate_authority=str(ACCOUNT / "ca.crt"))
    user = User(token_file=str(ACCOUNT / "token"))
    place = ACCOUNT / "namespace"
    namespace = place.read_text().strip() if place.exists() else DEFAULT_NAMESPACE
    return _access(cluster, ACCOUNT, _proven(user, cluster, ACCOUNT), namespace)


@dataclass(frozen=True, slots=True)
class _Proof:
    """What shows who somebody is: PEM texts, and a header."""

    certificate: str | None = None
    key: str | None = None
    authorization: str | None = None


def _access(cluster: Cluster, folder: Path, proof: _Proof, namespace: str) -> Access:
    headers = {"Authorization": proof.authorization} if proof.authorization else {}
    try:
        tls = _tls(cluster, folder, proof)
    except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
        raise NoClusterError(
            f"the certificates for {cluster.server} cannot be used: {error}"
        ) from error
    return Access(cluster.server.rstrip("/"), namespace, tls, headers, cluster.proxy_url)


class _NamedElse(ssl.SSLContext):
    """Knows the server by a name that is not its address."""

    name = ""

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        """Ask for that name."""
        return super().wrap_socket(*arguments, **{**options, "server_hostname": self.name})


def _tls(cluster: Cluster, folder: Path, proof: _Proof) -> ssl.SSLContext:
    tls: ssl.SSLContext
    if cluster.tls_server_name:
        tls = named = _NamedElse(ssl.PROTOCOL_TLS_CLIENT)
        named.name = cluster.tls_server_name
    else:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authorities = _text(cluster.certificate_authority_data, cluster.certificate_authority, folder)
    if cluster.insecure_skip_tls_verify:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    elif authorities is not None:
        tls.load_verify_locations(cadata=authorities)
    else:
        tls.load_default_certs()
    if proof.certificate and proof.key:
        with ExitStack() as kept:  # OpenSSL takes them from files alone
            paths = []
            for text in (proof.certificate, proof.key):
                file = kept.enter_context(tempfile.NamedTemporaryFile("w", suffix=".pem"))
                file.write(text)
                file.flush()
                paths.append(file.name)
            tls.load_cert_chain(*paths)
    return tls


def _text(data: str | None, path: str | None, folder: Path) -> str | None:
    if data:
        return base64.b64decode(data).decode()
    return (folder / path).read_text() if path else None


def _proven(user: User, cluster: Cluster, folder: Path) -> _Proof:
    if user.exec is not None:
        return _told(user.exec, cluster, folder)
    try:
        certificate = _text(user.client_certificate_data, user.client_certificate, folder)
        key = _text(user.client_key_data, user.client_key, folder)
        token = (folder / user.token_file).read_text().strip() if user.token_file else user.token
    except (OSError, ValueError) as error:
        raise NoClusterError(f"the kubeconfig's user cannot be used: {error}") from error
    if token:
        return _Proof(certificate, key, f"Bearer {token}")
    if user.username and user.password:
        both = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        return _Proof(certificate, key, f"Basic {both}")
    return _Proof(certificate, key)


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _Credential(msgspec.Struct, frozen=True):
    status: _Status


def _told(plugin: Plugin, cluster: Cluster, folder: Path) -> _Proof:
    """Let a program tell who we are, as cloud providers have it."""
    name = str(folder / plugin.command) if "/" in plugin.command else plugin.command
    command = shutil.which(name)
    if command is None:
        hint = f": {plugin.install_hint.strip()}" if plugin.install_hint else ""
        raise NoClusterError(f"the kubeconfig needs the program {plugin.command}{hint}")
    about: dict[str, object] = {"interactive": True}
    if plugin.provide_cluster_info:
        about["cluster"] = _about(cluster, folder)
    info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": about}
    environment = {each.name: each.value for each in plugin.env or ()}
    try:
        ended = subprocess.run(  # noqa: S603 kubectl runs what a kubeconfig names, and so do we
            [command, *(plugin.args or ())],
            env={**os.environ, **environment, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdout=subprocess.PIPE,
            check=True,
            timeout=PLUGIN_SECONDS,
        )
        status = msgspec.json.decode(ended.stdout, type=_Credential).status
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
        raise NoClusterError(
            f"{plugin.command}, which the kubeconfig needs, does not tell who you are: {error}"
        ) from error
    bearer = f"Bearer {status.token}" if status.token else None
    return _Proof(status.client_certificate_data, status.client_key_data, bearer)


def _about(cluster: Cluster, folder: Path) -> dict[str, object]:
    authorities = _text(cluster.certificate_authority_data, cluster.certificate_authority, folder)
    data = base64.b64encode(authorities.encode()).decode() if authorities else None
    found = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": data,
        "proxy-url": cluster.proxy_url,
    }
    return {name: value for name, value in found.items() if value}
