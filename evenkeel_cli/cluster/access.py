"""Finds how to reach a cluster: a kubeconfig or, without one, the pod's service account."""

import ssl
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenkeel.cluster.api import kubeconfig_checks
from evenkeel.cluster.api.api_errors import NoClusterError
from evenkeel.objects import DEFAULT_NAMESPACE
from evenkeel_cli.cluster import kubeconfig, proofs
from evenkeel_cli.cluster.kubeconfig import ClusterEntry, User
from evenkeel_cli.cluster.proofs import Proof

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_A_POD = "https://kubernetes.default.svc"


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """The server, credentials and TLS settings that every request needs."""

    server: str
    namespace: str
    """The default namespace."""
    tls: ssl.SSLContext
    headers: Mapping[str, str]
    proxy: str | None = None


def find(named: str | None = None, context: str | None = None) -> ServerAccess:
    """Find how to reach the cluster of a context. The default is the current context."""
    config = kubeconfig.read(named)
    name = context or config.current
    if not name and named is None and (ACCOUNT / "token").exists():
        return _use_service_account()
    if not name and named is None and (missing := kubeconfig.list_missing()):
        raise NoClusterError(
            f"no kubeconfig was found: KUBECONFIG names {', '.join(missing)}, which does not exist"
        )
    if not name:
        raise NoClusterError(
            "no cluster is chosen: use --kubeconfig, set KUBECONFIG, or choose a context with "
            "kubectl config use-context. (Without a cluster, evenkeel run writes all statuses to "
            ".evenkeel/status.json.)"
        )
    if name not in config.contexts:
        known = ", ".join(config.contexts) or "none"
        raise NoClusterError(f"the kubeconfig has no context {name}; it has: {known}")
    chosen = config.contexts[name]
    if chosen.cluster not in config.clusters:
        raise NoClusterError(
            f"the kubeconfig has no cluster {chosen.cluster}, which context {name} names"
        )
    if chosen.user and chosen.user not in config.users:
        raise NoClusterError(
            f"the kubeconfig has no user {chosen.user}, which context {name} names"
        )
    cluster, folder = config.clusters[chosen.cluster]
    if not kubeconfig_checks.is_address(cluster.server):
        raise NoClusterError(
            f"the server of cluster {chosen.cluster} in the kubeconfig is {cluster.server!r}; it "
            "must be an address such as https://10.0.0.1:6443"
        )
    user, users_folder = config.users.get(chosen.user, (User(), folder))
    proof = proofs.find_proof(user, cluster, users_folder)
    if proof.token is not None and not kubeconfig_checks.is_token(proof.token):
        raise NoClusterError(
            f"the token of user {chosen.user} in the kubeconfig has characters that a token cannot "
            "have, such as a line break: correct it, or log in again"
        )
    return _make_access(cluster, folder, proof, chosen.namespace or DEFAULT_NAMESPACE)


def _use_service_account() -> ServerAccess:
    cluster = ClusterEntry(IN_A_POD, certificate_authority=str(ACCOUNT / "ca.crt"))
    user = User(token_file=str(ACCOUNT / "token"))
    place = ACCOUNT / "namespace"
    namespace = place.read_text().strip() if place.exists() else DEFAULT_NAMESPACE
    proof = proofs.find_proof(user, cluster, ACCOUNT)
    if proof.token is not None and not kubeconfig_checks.is_token(proof.token):
        raise NoClusterError(
            f"the token in {ACCOUNT} has characters that a token cannot have, such as a line break"
        )
    return _make_access(cluster, ACCOUNT, proof, namespace)


def _make_access(cluster: ClusterEntry, folder: Path, proof: Proof, namespace: str) -> ServerAccess:
    headers = {"Authorization": proof.authorization} if proof.authorization else {}
    try:
        tls = _make_tls(cluster, folder, proof)
    except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
        raise NoClusterError(
            f"the certificates for {cluster.server} cannot be used: {error}"
        ) from error
    return ServerAccess(cluster.server.rstrip("/"), namespace, tls, headers, cluster.proxy_url)


class _OtherServerName(ssl.SSLContext):
    """Verifies the server's certificate for a name that differs from the server's address."""

    name = ""

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        """Connect, and verify the certificate for that name."""
        return super().wrap_socket(*arguments, **{**options, "server_hostname": self.name})


def _make_tls(cluster: ClusterEntry, folder: Path, proof: Proof) -> ssl.SSLContext:
    tls: ssl.SSLContext
    if cluster.tls_server_name:
        tls = named = _OtherServerName(ssl.PROTOCOL_TLS_CLIENT)
        named.name = cluster.tls_server_name
    else:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authorities = proofs.read_data(
        cluster.certificate_authority_data, cluster.certificate_authority, folder
    )
    if cluster.insecure_skip_tls_verify:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    elif authorities is not None:
        tls.load_verify_locations(cadata=authorities)
    else:
        tls.load_default_certs()
    if proof.certificate and proof.key:
        with ExitStack() as kept:  # OpenSSL reads certificates only from files
            paths = []
            for text in (proof.certificate, proof.key):
                file = kept.enter_context(tempfile.NamedTemporaryFile("w", suffix=".pem"))
                file.write(text)
                file.flush()
                paths.append(file.name)
            tls.load_cert_chain(*paths)
    return tls
