"""How the cluster and the user are chosen: by kubectl's rules."""

import base64
import json
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from evenkeel.cluster.api.api_errors import NoClusterError
from evenkeel_cli.cluster import access
from evenkeel_cli.cluster.access import ServerAccess

PLUGIN = """\
import json, os, sys
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
token = ",".join([sys.argv[1], os.environ["GREETING"], asked["spec"]["cluster"]["server"]])
print(json.dumps({"apiVersion": asked["apiVersion"], "status": {"token": token}}))
"""


def config(**parts: Any) -> dict[str, Any]:
    """Make a kubeconfig with one cluster, user and context; `parts` replace or add fields."""
    return {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **parts,
    }


def user(**fields: Any) -> dict[str, Any]:
    return {"users": [{"name": "u", "user": fields}]}


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the machine's kubeconfig, and the account of a pod in which these tests run."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(access, "ACCOUNT", tmp_path / "account")


def found(tmp_path: Path, context: str | None = None, **parts: Any) -> ServerAccess:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config(**parts)))
    return access.find(str(path), context)


def test_the_current_context_says_where_and_who(tmp_path: Path) -> None:
    way = found(tmp_path)
    assert (way.server, way.namespace) == ("https://127.0.0.1:6443", "default")
    assert way.headers == {"Authorization": "Bearer secret"}
    assert way.tls.verify_mode is ssl.CERT_REQUIRED


def test_another_context_may_have_another_namespace(tmp_path: Path) -> None:
    contexts = [
        {"name": "x", "context": {"cluster": "c"}},
        {"name": "y", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}},
    ]
    assert found(tmp_path, "y", contexts=contexts).namespace == "team-a"
    assert found(tmp_path, contexts=contexts).headers == {}
    nameless = [{"name": "x", "context": {"cluster": "c", "namespace": ""}}]
    assert found(tmp_path, contexts=nameless).namespace == "default"


def test_of_several_files_the_first_that_has_a_name_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(yaml.safe_dump({**user(token="first"), "current-context": "x"}))
    two.write_text(yaml.safe_dump(config(**{"current-context": "z"})))
    monkeypatch.setenv("KUBECONFIG", f"{one}:/nowhere:{two}")
    assert access.find().headers == {"Authorization": "Bearer first"}


def test_the_file_in_the_home_folder_is_the_default(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".kube"
    folder.mkdir(parents=True)
    (folder / "config").write_text(yaml.safe_dump(config()))
    assert access.find().server == "https://127.0.0.1:6443"


def test_a_pod_goes_by_its_service_account(tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("of-the-pod\n")
    (account / "namespace").write_text("team-a")
    (account / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    way = access.find()
    assert (way.server, way.namespace) == (access.IN_A_POD, "team-a")
    assert way.headers == {"Authorization": "Bearer of-the-pod"}


def test_paths_start_in_the_folder_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    way = found(tmp_path, **user(tokenFile="token"))
    assert way.headers == {"Authorization": "Bearer from-a-file"}


def test_names_and_passwords_are_shown_too(tmp_path: Path) -> None:
    way = found(tmp_path, **user(username="a", password="b"))
    assert way.headers == {"Authorization": "Basic " + base64.b64encode(b"a:b").decode()}


def test_certificates_may_stand_in_the_file_itself(tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("user")
    proof = {
        "client-certificate-data": base64.b64encode(issued.cert_chain_pems[0].bytes()).decode(),
        "client-key-data": base64.b64encode(issued.private_key_pem.bytes()).decode(),
    }
    assert found(tmp_path, **user(**proof)).headers == {}
    wrong = {**proof, "client-key-data": base64.b64encode(b"nonsense").decode()}
    with pytest.raises(NoClusterError, match="the certificates for https://127"):
        found(tmp_path, **user(**wrong))


def test_who_trusts_anybody_says_so(tmp_path: Path) -> None:
    cluster = {"server": "https://a", "insecure-skip-tls-verify": True}
    way = found(tmp_path, clusters=[{"name": "c", "cluster": cluster}])
    assert way.tls.verify_mode is ssl.CERT_NONE


def test_a_program_may_tell_who_somebody_is(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PLUGIN)
    asked = {
        "command": sys.executable,
        "args": [str(plugin), "me"],
        "env": [{"name": "GREETING", "value": "hello"}],
        "apiVersion": "client.authentication.k8s.io/v1",
        "provideClusterInfo": True,
    }
    way = found(tmp_path, **user(exec=asked))
    assert way.headers == {"Authorization": "Bearer me,hello,https://127.0.0.1:6443/"}


@pytest.mark.parametrize(
    ("plugin", "complaint"),
    [
        ({"command": "/no/such", "installHint": "get it\n"}, "needs the program /no/such: get it$"),
        ({"command": "false"}, "the plugin false of the kubeconfig returned no credentials"),
        ({"command": "true"}, "the plugin true of the kubeconfig returned no credentials"),
    ],
    ids=["missing", "fails", "says nothing"],
)
def test_a_program_that_does_not_tell_is_an_error(
    tmp_path: Path, plugin: dict[str, str], complaint: str
) -> None:
    with pytest.raises(NoClusterError, match=complaint):
        found(tmp_path, **user(exec={"apiVersion": "v1", **plugin}))


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"current-context": None}, "no cluster is chosen"),
        ({"current-context": "z"}, "the kubeconfig has no context z; it has: x"),
        ({"clusters": []}, "the kubeconfig has no cluster c, which context x names"),
        ({"users": None}, "the kubeconfig has no user u, which context x names"),
        ({"users": [{"user": {}}]}, r"is not a kubeconfig: .*`name`"),
        ({"contexts": "x"}, "is not a kubeconfig: Expected"),
        (user(tokenFile="nowhere"), "the kubeconfig's user cannot be used"),
    ],
    ids=["no current", "context", "cluster", "user", "name", "list", "token file"],
)
def test_a_kubeconfig_that_does_not_say_it_all_is_an_error(
    tmp_path: Path, parts: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(NoClusterError, match=complaint):
        found(tmp_path, **parts)


@pytest.mark.parametrize("token", ["SEK\nRIT", "SEK RIT", "\u0441\u0435\u043a"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(
    tmp_path: Path, token: str
) -> None:
    (tmp_path / "token").write_text(token)
    for fields in ({"token": token}, {"tokenFile": "token"}):
        with pytest.raises(NoClusterError) as error:
            found(tmp_path, **user(**fields))
        assert "the token of user u in the kubeconfig has characters" in str(error.value)
        assert token[:3] not in str(error.value)


@pytest.mark.parametrize("server", ["nonsense", "", "https://a:b"])
def test_a_server_without_an_address_is_an_error(tmp_path: Path, server: str) -> None:
    complaint = f"the server of cluster c in the kubeconfig is {server!r}; it must be an address"
    with pytest.raises(NoClusterError, match=complaint):
        found(tmp_path, clusters=[{"name": "c", "cluster": {"server": server}}])


def test_where_a_kubeconfig_is_no_yaml_is_one_line_without_what_stands_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config"
    path.write_text("users:\n  - token: SEKRIT\n token: [\n")
    with pytest.raises(NoClusterError) as error:
        access.find(str(path))
    assert str(error.value).startswith(f"{path} is not a kubeconfig: ")
    assert str(error.value).endswith(", in line 3")
    assert "SEKRIT" not in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_no_kubeconfig_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "config"
    for text in ("a: [", "just words", json.dumps([1])):
        path.write_text(text)
        with pytest.raises(NoClusterError, match=f"{path} is not a kubeconfig"):
            access.find(str(path))
    with pytest.raises(NoClusterError, match="the kubeconfig /nowhere cannot be read"):
        access.find("/nowhere")
