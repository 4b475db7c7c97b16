"""How the client of the commands treats answers that are meant to harm the user."""

import itertools
import ssl
import threading
from collections.abc import Iterator

import pytest

from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_errors import ApiError, AwayError
from evenkeel.objects import Key
from evenkeel_cli.cluster import client
from evenkeel_cli.cluster.access import ServerAccess
from evenkeel_cli.cluster.client import ClusterClient
from tests.http_answers import answering, redirect

TOKEN = "Bearer of-an-admin"
POD = Key("shop", "billing-driver")
PIECE = b"x" * 65536


def cluster(server: str) -> ClusterClient:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return ClusterClient(ServerAccess(server, "shop", tls, {"Authorization": TOKEN}))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_and_the_token_goes_nowhere_else(status: int) -> None:
    with (
        answering([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]) as (elsewhere, stolen),
        answering(redirect(status, f"{elsewhere}/steal")) as (server, _),
    ):
        asking = cluster(server)
        with pytest.raises(ApiError, match=f"a redirect to '{elsewhere}/steal', which is not foll"):
            asking.read_page(POD, 4040, "/metrics")
        with pytest.raises(ApiError, match="with a redirect to"):
            asking.get(paths.GROUPS, POD)
        with pytest.raises(ApiError, match="with a redirect to"):
            list(asking.list_objects(paths.GROUPS, "shop"))
        with pytest.raises(ApiError, match="with a redirect to"):
            asking.create(paths.GROUPS, "shop", {})
        with pytest.raises(ApiError, match="with a redirect to"):
            asking.delete(paths.GROUPS, POD)
    assert stolen == []


@pytest.mark.parametrize("status", ["200 OK", "500 Oops", "302 Found"])
def test_a_page_without_an_end_is_read_to_a_limit(status: str) -> None:
    head = f"HTTP/1.1 {status}\r\n\r\n".encode()
    answer = itertools.chain([head], itertools.repeat(PIECE))
    with answering(answer) as (server, _), pytest.raises(ApiError, match="with more than 33554432"):
        cluster(server).read_page(POD, 4040, "/metrics")


def test_a_page_that_comes_drop_by_drop_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "POD_SECONDS", 0.3)
    never = threading.Event()

    def drops() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        while not never.wait(0.02):
            yield b"x"

    with answering(drops()) as (server, _), pytest.raises(AwayError, match="the answer takes"):
        cluster(server).read_page(POD, 4040, "/metrics")


def test_an_answer_that_is_cut_off_is_none() -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour"
    with answering([cut]) as (server, _), pytest.raises(AwayError, match="does not answer"):
        cluster(server).read_page(POD, 4040, "/metrics")


def test_what_a_pod_says_of_its_trouble_is_no_command_to_a_terminal() -> None:
    text = b"HTTP/1.1 500 Oops\r\nContent-Length: 8\r\n\r\n\x1b]0;evil"
    with answering([text]) as (server, _), pytest.raises(ApiError, match=r": ·\]0;evil$"):
        cluster(server).read_page(POD, 4040, "/metrics")
