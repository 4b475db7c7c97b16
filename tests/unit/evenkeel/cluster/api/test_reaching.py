"""How the operator finds its cluster, and its error if it cannot."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import kopf
import pytest
import yaml

from evenkeel.cluster.api import api_client, kubeconfig_checks
from evenkeel.cluster.api.api_errors import NoClusterError, NotAnApiServerError
from tests import http_answers


@pytest.mark.parametrize("text", [None, "{", "current-context: nowhere\ncontexts: []"])
def test_a_kubeconfig_that_cannot_be_used_is_told_in_a_sentence(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "config"
    if text is not None:
        place.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(place))
    with pytest.raises(NoClusterError, match="the kubeconfig cannot be used: "):
        api_client.find_connection(kopf.OperatorSettings())


def kubeconfig(folder: Path, server: str, token: str) -> Path:
    found = folder / "config"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    found.write_text(yaml.safe_dump(document))
    return found


@pytest.mark.parametrize(
    ("server", "token", "complaint"),
    [
        ("nonsense", "a", "its server 'nonsense' is not an address"),
        ("https://a:b", "a", "its server 'https://a:b' is not an address"),
        ("https://a", "SEK\nRIT", "its token has characters that no token has"),
        ("https://a", "\u0441\u0435\u043a\u0440\u0435\u0442", "its token has characters"),
    ],
)
def test_what_cannot_reach_a_server_is_refused_and_no_token_is_shown(
    server: str, token: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, server, token)))
    with pytest.raises(NoClusterError) as error:
        api_client.find_connection(kopf.OperatorSettings())
    assert complaint in str(error.value)
    assert token == "a" or token[:3] not in str(error.value)


@pytest.mark.parametrize(
    ("server", "is_one"),
    [
        ("https://10.0.0.1:6443", True),
        ("http://[::1]:80/k8s/clusters/c-1", True),
        ("", False),
        ("ftp://a", False),
        ("https://", False),
        ("https://a:99999", False),
    ],
)
def test_addresses_of_api_servers(server: str, is_one: bool) -> None:
    assert kubeconfig_checks.is_address(server) is is_one


@contextmanager
def answering(status: int, text: bytes) -> Iterator[str]:
    """Run a server that always gives the same answer; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


async def greet(server: str) -> None:
    async with api_client.Api(lambda: kopf.ConnectionInfo(server=server)) as client:
        await client.refuse_strangers()


@pytest.mark.parametrize(
    ("status", "text"),
    [(200, b"<html>"), (404, b"<html>"), (200, b"{}"), (200, b"[]")],
    ids=["a page", "no page", "other JSON", "a list"],
)
def test_what_is_no_api_server_is_refused(status: int, text: bytes) -> None:
    with (
        answering(status, text) as server,
        pytest.raises(NoClusterError, match=f"the server at {server} is not an API server"),
    ):
        asyncio.run(greet(server))


@pytest.mark.parametrize(
    ("status", "text"), [(200, b'{"versions": ["v1"]}'), (403, b"{}"), (499, b""), (503, b"later")]
)
def test_an_api_server_that_may_answer_later_is_waited_for(status: int, text: bytes) -> None:
    with answering(status, text) as server:
        asyncio.run(greet(server))
    asyncio.run(greet("http://127.0.0.1:1"))


@pytest.mark.parametrize("status", [302, 307])
def test_the_operator_follows_no_redirect(status: int) -> None:
    async def read(server: str) -> None:
        info = kopf.ConnectionInfo(server=server, token="of-the-operator")
        async with api_client.Api(lambda: info) as client:
            await client.get("/api")

    with (
        http_answers.answering([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]) as other,
        http_answers.answering(http_answers.redirect(status, other[0])) as (server, _),
        pytest.raises(
            NotAnApiServerError, match=f"the answer to GET /api is a redirect to '{other[0]}'"
        ),
    ):
        asyncio.run(read(server))
    assert other[1] == []


def test_an_operator_that_finds_another_server_ends_with_a_sentence(tmp_path: Path) -> None:
    with answering(404, b"<html>") as server:
        ended = subprocess.run(
            [sys.executable, "-m", "evenkeel_cli", "operator"],
            env={**os.environ, "KUBECONFIG": str(kubeconfig(tmp_path, server, "a"))},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (ended.returncode, ended.stderr) == (
        1,
        f"evenkeel: the server at {server} is not an API server: check that the kubeconfig has "
        "the right address\n",
    )
