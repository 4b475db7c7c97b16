"""
Reads kubeconfigs by kubectl's rules: if several files define a name, the first file wins.

Relative paths in a file start at its folder.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from evenkeel.cluster.api import kubeconfig_checks
from evenkeel.cluster.api.api_errors import NoClusterError
from evenkeel.objects import DEFAULT_NAMESPACE


class ClusterEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """The address of an API server, and how to verify its certificate."""

    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class Variable(msgspec.Struct, frozen=True):
    """An environment variable."""

    name: str
    value: str


class Plugin(msgspec.Struct, frozen=True, rename="camel"):
    """A program that returns credentials."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[Variable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False


class User(msgspec.Struct, frozen=True, rename="kebab"):
    """The credentials of a user."""

    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    exec: Plugin | None = None


class Context(msgspec.Struct, frozen=True):
    """A cluster, a user and a default namespace."""

    cluster: str
    user: str = ""
    namespace: str = DEFAULT_NAMESPACE


Kind = TypeVar("Kind", ClusterEntry, User, Context)


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: ClusterEntry


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: User | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: Context


class _File(msgspec.Struct, frozen=True, rename="kebab"):
    current_context: str | None = None
    contexts: list[_NamedContext] | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None


@dataclass(slots=True)
class Kubeconfig:
    """All files merged. Each cluster and user is stored with the folder of its file."""

    current: str = ""
    contexts: dict[str, Context] = field(default_factory=dict)
    clusters: dict[str, tuple[ClusterEntry, Path]] = field(default_factory=dict)
    users: dict[str, tuple[User, Path]] = field(default_factory=dict)


def read(named: str | None, environment: Mapping[str, str] = os.environ) -> Kubeconfig:
    """Read the named file, otherwise the files in KUBECONFIG, otherwise ~/.kube/config."""
    found = Kubeconfig()
    for path in _find_paths(named, environment):
        said = _read_file(path)
        found.current = found.current or said.current_context or ""
        for context in said.contexts or ():
            found.contexts.setdefault(context.name, context.context)
        for cluster in said.clusters or ():
            found.clusters.setdefault(cluster.name, (cluster.cluster, path.parent))
        for user in said.users or ():
            found.users.setdefault(user.name, (user.user or User(), path.parent))
    return found


def _find_paths(named: str | None, environment: Mapping[str, str]) -> Iterable[Path]:
    if named is not None:
        return [Path(named)]
    listed = environment.get("KUBECONFIG") or "~/.kube/config"
    paths = (Path(each).expanduser() for each in listed.split(os.pathsep) if each)
    return [each for each in paths if each.exists()]


def list_missing(environment: Mapping[str, str] = os.environ) -> list[str]:
    """List the files that KUBECONFIG names if none of them exists."""
    named = [each for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    return [] if any(Path(each).expanduser().exists() for each in named) else named


def _read_file(path: Path) -> _File:
    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8"))
        return msgspec.convert(said or {}, _File)
    except OSError as error:
        raise NoClusterError(f"the kubeconfig {path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise NoClusterError(
            f"{path} is not a kubeconfig: {kubeconfig_checks.describe_yaml_error(error)}"
        ) from error
    except (UnicodeDecodeError, msgspec.ValidationError) as error:
        raise NoClusterError(f"{path} is not a kubeconfig: {error}") from error
