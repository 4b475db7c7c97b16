"""
Starts the API of Kubernetes 1.34.4 on loopback: an etcd and a kube-apiserver, both real.

    with kubernetes.run() as cluster:
        cluster.admin.ask("GET", "/api/v1/namespaces")
        cluster.servers["kube-apiserver"].kill()
        cluster.servers["kube-apiserver"].restart()

The API is ready when the block begins. It is gone with its data when the block ends, or when this
process is killed. Until then the servers keep their data and addresses, even if they are killed and
restarted. Authorization is as in a real cluster: Node and RBAC. There are no controllers and no
nodes: no deployment creates pods, nothing is garbage-collected, a deleted namespace stays, the
roles `view`, `edit` and `admin` are empty, and a namespace accepts no pods before its service
account exists.
"""

import abc
import contextlib
import http.client
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox import go, process, server
from sandbox.kubernetes_users import ADMINS, ApiUser, Authority
from sandbox.server import LOOPBACK, Site

VERSION = "1.34.4"
_TOKEN_SECONDS = 24 * 60 * 60
_ANSWER_SECONDS = 5.0


def make_program(name: str) -> go.GoProgram:
    """Describe how to build one of Kubernetes' own commands."""
    _, minor, patch = VERSION.split(".")
    version = "k8s.io/component-base/version"
    return go.GoProgram(
        name, "k8s.io/kubernetes", f"v{VERSION}", f"cmd/{name}", staged=f"v0.{minor}.{patch}",
        strings={
            f"{version}.gitVersion": f"v{VERSION}",
            f"{version}.gitMajor": "1",
            f"{version}.gitMinor": minor,
        },
    )  # fmt: skip


_PROGRAMS = (
    go.GoProgram("etcd", "go.etcd.io/etcd/server/v3", "v3.6.8"),
    make_program("kube-apiserver"),
)


class KubernetesServer(server.SandboxServer):
    """The part that etcd and the API server have in common."""

    program = ""

    def __init__(
        self, programs: Mapping[str, Path], place: process.Folder, site: Site = LOOPBACK
    ) -> None:
        """Claim the ports; start nothing yet."""
        super().__init__(self.program)
        self._command = programs[self.program]
        self._place = place
        self._site = site

    @abc.abstractmethod
    def make_flags(self) -> dict[str, str]:
        """Return the server's command-line flags. This is called at each start."""

    @abc.abstractmethod
    def _answers(self) -> bool:
        """Whether the server answers; `OSError` if nothing listens."""

    def _start_process(self) -> process.ChildProcess:
        flags = [f"--{name}={value}" for name, value in self.make_flags().items()]
        command: list[str | Path] = [*self._site.enter, self._command, *flags]
        return process.ChildProcess(self.name, command, self._place, {})

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self._answers()
        return False


class Etcd(KubernetesServer):
    """The storage of the API server."""

    program = "etcd"

    @property
    def url(self) -> str:
        """The address that the API server uses."""
        return f"http://{self._site.address}:{self.port}"

    def make_flags(self) -> dict[str, str]:
        """Return etcd's command-line flags."""
        peers = f"http://{self._site.address}:{self.port + 1}"
        return {
            "name": self.name,
            "data-dir": str(self._place.path / self.name / "data"),
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"{self.name}={peers}",
            # A single member does not wait for others, so the times can be short.
            "heartbeat-interval": "10",
            "election-timeout": "100",
            # Written data survives if the process is killed, but not if the machine loses power.
            "unsafe-no-fsync": "true",
        }

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(
            self._site.address, self.port, timeout=_ANSWER_SECONDS
        )
        with contextlib.closing(connection):
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK


class ApiServer(KubernetesServer):
    """The API server."""

    program = "kube-apiserver"

    def __init__(
        self,
        programs: Mapping[str, Path],
        place: process.Folder,
        etcd: Etcd,
        flags: Mapping[str, str],
        site: Site = LOOPBACK,
        names: Sequence[str] = (),
    ) -> None:
        """Make the server's certificates and the first user."""
        super().__init__(programs, place, site)
        self._etcd = etcd
        self._flags = flags
        self.authority = Authority(place.path / "users", site.address, self.port, *names)
        self.admin = self.authority.issue_certificate("admin", ADMINS)

    @property
    def url(self) -> str:
        """The address that clients use."""
        return f"https://{self._site.address}:{self.port}"

    def make_flags(self) -> dict[str, str]:
        """Return the server's flags. The caller's flags come last, so they override ours."""
        key = str(self.authority.service_accounts_key)
        return {
            "etcd-servers": self._etcd.url,
            "bind-address": self._site.address,
            "advertise-address": self._site.address,
            "secure-port": str(self.port),
            "endpoint-reconciler-type": "none",  # it would refuse a loopback address
            "service-cluster-ip-range": "10.0.0.0/24",
            "tls-cert-file": str(self.authority.servers_certificate),
            "tls-private-key-file": str(self.authority.servers_key),
            "client-ca-file": str(self.authority.certificate),
            "kubelet-client-certificate": str(self.authority.servers_proof),
            "kubelet-client-key": str(self.authority.servers_proof),
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "authorization-mode": "Node,RBAC",
            **self._flags,
        }

    def _answers(self) -> bool:
        # The server creates the namespace only after it is ready for the first time.
        asked = (self.admin.ask("GET", path) for path in ("/readyz", "/api/v1/namespaces/default"))
        return all(answer.status == http.HTTPStatus.OK for answer in asked)


class ApiRefusedError(process.SandboxError):
    """The API has refused a request of the sandbox."""


@dataclass(frozen=True)
class Cluster:
    """The servers that `run` has started."""

    servers: Mapping[str, KubernetesServer]
    """The servers, by program name."""
    url: str
    admin: ApiUser
    """A user with all rights."""
    _authority: Authority

    def user(self, name: str, group: str | None = None) -> ApiUser:
        """Make a user with a certificate; RBAC gives rights to the name or the group."""
        return self._authority.issue_certificate(name, group)

    def service_account(self, namespace: str, name: str) -> ApiUser:
        """Make a user for an existing service account, with a token that is valid for a day."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS},
        }
        status, answer = self.admin.ask("POST", path, request)
        if status != http.HTTPStatus.CREATED:
            raise ApiRefusedError(f"no token for {namespace}/{name}: {answer['message']}")
        name = f"system:serviceaccount:{namespace}:{name}"
        return self._authority.use_token(name, answer["status"]["token"])


def build() -> dict[str, Path]:
    """Build the programs, unless they are built already."""
    return {program.name: go.build(program) for program in _PROGRAMS}


@contextlib.contextmanager
def run(flags: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Run the servers. `flags` are for the API server, without dashes, and override ours."""
    programs = build()
    with contextlib.ExitStack() as claims, process.make_folder("evenkeel-kubernetes-") as place:
        etcd = Etcd(programs, place)
        claims.callback(etcd.release)
        api = ApiServer(programs, place, etcd, flags or {})
        claims.callback(api.release)
        servers: tuple[KubernetesServer, ...] = (etcd, api)
        for server in servers:
            server.start()
            server.wait_until_ready()
        by_name = {server.name: server for server in servers}
        yield Cluster(by_name, api.url, api.admin, api.authority)
