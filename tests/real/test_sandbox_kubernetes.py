"""The sandbox's real Kubernetes: what it serves and refuses, and what it leaves behind."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sandbox import jars, kubernetes, process
from sandbox.kubernetes_users import ApiUser
from sandbox.waiting import wait_for
from tests.ending import ends

ROOT = Path(__file__).parents[2]
UP = [sys.executable, "-m", "sandbox", "kubernetes", "up"]
PATIENCE_SECONDS = 120.0
MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
BOATS = "/apis/evenkeel.test/v1/namespaces/default/boats"


@pytest.fixture(scope="module")
def shared() -> Iterator[kubernetes.Cluster]:
    with contextlib.ExitStack() as running:
        try:
            cluster = running.enter_context(kubernetes.run())
        except jars.JarsError as error:
            pytest.skip(f"NO REAL KUBERNETES: {error}")
        yield cluster


@pytest.fixture
def cluster(shared: kubernetes.Cluster) -> kubernetes.Cluster:
    """Both servers. They run again if the last test has stopped them."""
    for server in shared.servers.values():
        if not server.is_running:
            server.restart()
    return shared


@pytest.fixture
def admin(cluster: kubernetes.Cluster) -> ApiUser:
    return cluster.admin


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A valid Kubernetes name that only this test uses."""
    words: str = request.node.name.removeprefix("test_")
    return words.replace("_", "-")[:50].strip("-")


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def may_read_maps(cluster: kubernetes.Cluster, name: str, kind: str) -> None:
    """Give a user the right to list ConfigMaps, by a role that has the user's name."""
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    role = {"metadata": {"name": name}, "rules": [rule]}
    assert cluster.admin.ask("POST", f"{RIGHTS}/roles", role).status == 201
    subject = {"kind": kind, "name": name}
    if kind == "ServiceAccount":
        subject["namespace"] = "default"
    named = {"kind": "Role", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": name}, "roleRef": named, "subjects": [subject]}
    assert cluster.admin.ask("POST", f"{RIGHTS}/rolebindings", binding).status == 201


def allowed(user: ApiUser) -> int:
    """Repeat a request until RBAC knows the newest roles; return the HTTP status."""
    return wait_for(lambda: user.ask("GET", MAPS).status, lambda status: status == 200)


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [*map(int, children), *(deep for one in children for deep in descendants(int(one)))]


def test_both_servers_serve_when_entered(cluster: kubernetes.Cluster) -> None:
    assert list(cluster.servers) == ["etcd", "kube-apiserver"]
    assert cluster.admin.ask("GET", "/readyz") == (200, "ok")
    assert cluster.admin.ask("GET", "/version").body["gitVersion"] == f"v{kubernetes.VERSION}"
    assert cluster.admin.ask("GET", "/api/v1/namespaces/default").status == 200


def test_all_ports_are_bound_to_loopback(cluster: kubernetes.Cluster) -> None:
    numbers = [server.port for server in cluster.servers.values()]
    numbers.append(cluster.servers["etcd"].port + 1)
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    bound = {local for _, local, _, state, *_ in lines if state == "0A"
             if int(local.rpartition(":")[2], 16) in numbers}  # fmt: skip
    assert bound == {f"0100007F:{number:04X}" for number in numbers}


def test_rbac_refuses_a_user_without_rights(cluster: kubernetes.Cluster, name: str) -> None:
    status, answer = cluster.user(name).ask("GET", MAPS)
    assert status == 403
    assert f'User "{name}" cannot list resource "configmaps"' in answer["message"]


def test_rbac_knows_a_user_by_name(cluster: kubernetes.Cluster, name: str) -> None:
    user = cluster.user(name)
    may_read_maps(cluster, name, "User")
    assert allowed(user) == 200
    assert user.ask("POST", MAPS, config_map(name)).status == 403


def test_rbac_knows_a_user_by_group(cluster: kubernetes.Cluster, name: str) -> None:
    user = cluster.user("somebody", group=name)
    may_read_maps(cluster, name, "Group")
    assert allowed(user) == 200


def test_a_service_account_acts_by_its_token(cluster: kubernetes.Cluster, name: str) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert cluster.admin.ask("POST", accounts, {"metadata": {"name": name}}).status == 201
    account = cluster.service_account("default", name)
    assert account.ask("GET", MAPS).status == 403
    may_read_maps(cluster, name, "ServiceAccount")
    assert allowed(account) == 200


def test_a_service_account_that_nobody_made_has_no_token(cluster: kubernetes.Cluster) -> None:
    with pytest.raises(kubernetes.ApiRefusedError, match=r'default/nobody: .*"nobody" not found'):
        cluster.service_account("default", "nobody")


def test_a_kubeconfig_holds_all_that_its_user_needs(cluster: kubernetes.Cluster) -> None:
    config = json.loads(cluster.user("team:captain").kubeconfig.read_text())
    assert config["clusters"][0]["cluster"]["server"] == cluster.url
    assert set(config["clusters"][0]["cluster"]) == {"server", "certificate-authority-data"}
    assert set(config["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
    assert config["current-context"] == config["contexts"][0]["name"] == "team:captain"


def test_a_rule_of_a_definition_refuses_a_bad_object(admin: ApiUser) -> None:
    rule = {"rule": "self.low <= self.high", "message": "low is above high"}
    number = {"type": "integer"}
    spec = {
        "type": "object",
        "properties": {"low": number, "high": number},
        "required": ["low", "high"],
        "x-kubernetes-validations": [rule],
    }
    version = {
        "name": "v1", "served": True, "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }  # fmt: skip
    definition = {
        "metadata": {"name": "boats.evenkeel.test"},
        "spec": {
            "group": "evenkeel.test", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
        },
    }  # fmt: skip
    assert admin.ask("POST", DEFINITIONS, definition).status == 201
    wait_for(lambda: admin.ask("GET", BOATS).status, lambda status: status == 200)

    def boat(low: int) -> dict[str, Any]:
        kind = {"apiVersion": "evenkeel.test/v1", "kind": "Boat"}
        return {**kind, "metadata": {"name": f"b{low}"}, "spec": {"low": low, "high": 2}}

    assert admin.ask("POST", BOATS, boat(1)).status == 201
    status, answer = admin.ask("POST", BOATS, boat(3))
    assert status == 422
    assert "low is above high" in answer["message"]


@pytest.mark.parametrize("which", ["kube-apiserver", "etcd"])
def test_a_killed_server_comes_back_with_its_data(
    cluster: kubernetes.Cluster, admin: ApiUser, which: str
) -> None:
    server = cluster.servers[which]
    pid, port = server.pid, server.port
    assert admin.ask("POST", MAPS, config_map(f"kept-by-{which}", kept="yes")).status == 201
    server.kill()
    assert not server.is_running
    assert ends(pid)
    server.restart()
    assert server.port == port
    status, found = wait_for(
        lambda: admin.ask("GET", f"{MAPS}/kept-by-{which}"), lambda answer: answer.status == 200
    )
    assert (status, found["data"]) == (200, {"kept": "yes"})


def test_nobody_answers_while_the_api_server_is_down(
    cluster: kubernetes.Cluster, admin: ApiUser
) -> None:
    cluster.servers["kube-apiserver"].kill()
    assert cluster.servers["etcd"].is_running
    with pytest.raises(ConnectionRefusedError):
        admin.ask("GET", "/readyz")


def test_two_sandboxes_live_side_by_side(cluster: kubernetes.Cluster, name: str) -> None:
    with kubernetes.run() as other:
        assert other.url != cluster.url
        assert other.admin.ask("POST", MAPS, config_map(name)).status == 201
        assert cluster.admin.ask("GET", f"{MAPS}/{name}").status == 404
        folder = other.admin.kubeconfig.parents[1]
        pids = [server.pid for server in other.servers.values()]
    assert all(ends(pid) for pid in pids)
    assert not folder.exists()
    assert cluster.admin.ask("GET", "/readyz").status == 200


def test_a_flag_that_is_refused_is_reported_with_the_servers_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "_keep_log", lambda log: tmp_path / log.name)
    with (
        pytest.raises(process.PartNotReadyError, match=r"(?s)kube-apiserver ended.*no-such-gate"),
        kubernetes.run({"feature-gates": "no-such-gate=true"}),
    ):
        pytest.fail("it started")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_command_tells_where_all_is_and_leaves_nothing(number: signal.Signals) -> None:
    with subprocess.Popen(
        UP, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout is not None
        told = json.loads(command.stdout.readline())
        assert list(told) == ["server", "kubeconfig"]
        address = urlsplit(told["server"])
        with socket.create_connection((address.hostname, address.port)):
            pass
        folder = Path(told["kubeconfig"]).parents[1]
        assert folder.is_dir()
        started = descendants(command.pid)
        command.send_signal(number)
        assert command.wait(PATIENCE_SECONDS) == (-9 if number == signal.SIGKILL else 0)
    assert len(started) == 5  # two servers, their two guards, and the guard of the folder
    assert all(ends(pid) for pid in started)
    assert not folder.exists()
