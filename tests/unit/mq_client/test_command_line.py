"""`python -m mq_client` reports every error in one line, whatever its arguments and its output."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mq_client.commands.sending import Send
from tests.peer import Peer

ROOT = Path(__file__).parents[3]
TOO_BIG = 13
MANY_DIGITS = "9" * 5000
DIGIT_TWO_RAISED = "\u00b2"


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as running:
        yield running


def run(
    peer: Peer, *arguments: str, given: bytes = b"", output: str | None = None, **settings: str
) -> tuple[int, str, str]:
    """Run the command as a process; return its exit code, its output and its error output."""
    environment = {**os.environ, "NAMESRV_ADDR": peer.address, **settings}
    with Path(output or os.devnull).open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "mq_client", *arguments],
            input=given, env=environment, cwd=ROOT, timeout=60, check=False,
            stdout=subprocess.PIPE if output is None else file, stderr=subprocess.PIPE,
        )  # fmt: skip
    return done.returncode, (done.stdout or b"").decode(), done.stderr.decode()


def test_lines_are_sent_as_they_are_but_blank_ones(peer: Peer) -> None:
    code, _, told = run(peer, "send", "orders", given=b"one\n\n  \n two \n\xff\xfe\n")
    assert (code, told) == (0, "")
    assert peer.bodies == [b"one", b" two ", b"\xff\xfe"]


def test_what_was_sent_of_many_lines_is_told_in_lines_of_json(peer: Peer) -> None:
    _, printed, _ = run(peer, "send", "orders", "-o", "json", given=b"one\ntwo\n")
    rows = [json.loads(line) for line in printed.splitlines()]
    assert [row["broker"] for row in rows] == ["broker-a", "broker-a"]
    assert all(row["msg_id"] for row in rows)


def test_the_names_of_columns_stand_above_all_lines_that_were_sent(peer: Peer) -> None:
    _, printed, _ = run(peer, "send", "orders", given=b"one\ntwo\nthree\n")
    head, *rows = printed.splitlines()
    assert head.split() == ["BROKER", "QUEUE", "OFFSET", "MSG", "ID"]
    assert [row.split()[0] for row in rows] == ["broker-a"] * 3
    assert [row.index("broker-a") for row in rows] == [head.index("BROKER")] * 3


def test_a_failure_in_the_middle_tells_how_many_lines_were_sent(peer: Peer) -> None:
    peer.refuses = lambda frame: TOO_BIG if frame.code == Send.code and peer.bodies[1:] else 0
    code, _, told = run(peer, "send", "orders", given=b"one\ntwo\nthree\nfour\n")
    assert code == 1
    assert told.startswith("mq_client: 2 lines were sent, and the next line failed: SEND_MESSAGE")


@pytest.mark.parametrize(
    "arguments",
    [
        ["send", "orders", "x", "--queue", f"broker-a:{DIGIT_TWO_RAISED}"],
        ["send", "orders", "x", "--queue", f"broker-a:{MANY_DIGITS}"],
        ["send", "orders", "x", "--queue", ""],
        ["send", "orders", "x", "--delay-level", MANY_DIGITS],
        ["send", "orders", "x", "--delay-level", "99"],
        ["send", "orders", "x", "--delay-level", "0"],
        ["create-topic", "orders", "--queues", "0"],
        ["reset-offsets", "billing", "orders"],
        ["reset-offsets", "billing", "orders", "--to", "yesterday"],
        ["route"],
        ["nonsense"],
        ["--name-server", f"localhost:{MANY_DIGITS}", "topics"],
        ["tail", "orders", "--from", "yesterday"],
        ["tail", "orders", "--sql", ""],
        ["tail", "orders", "--sql", "a > 1", "--tags", "b"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_wrong_arguments_are_wrong_usage(peer: Peer, arguments: list[str]) -> None:
    code, _, told = run(peer, *arguments)
    assert code == 64
    assert "Traceback" not in told


def test_options_of_all_commands_may_stand_on_both_sides(peer: Peer) -> None:
    at = ["--name-server", peer.address, "-o", "json"]
    before = run(peer, *at, "route", "orders", NAMESRV_ADDR="127.0.0.1:1")
    behind = run(peer, "route", "orders", *at, NAMESRV_ADDR="127.0.0.1:1")
    assert before == behind
    assert json.loads(behind[1])[0]["broker"] == "broker-a"


def test_letters_that_the_terminal_cannot_show_are_escaped(peer: Peer) -> None:
    peer.topics = ["gr\u00f6\u00dfe"]
    code, printed, told = run(peer, "topics", PYTHONIOENCODING="ascii")
    assert (code, told) == (0, "")
    assert "gr\\xf6\\xdfe" in printed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_an_output_that_is_full_is_one_line(peer: Peer) -> None:
    code, _, told = run(peer, "route", "orders", output="/dev/full")
    assert code == 1
    assert told.startswith("mq_client: ")
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    ("what_happens", "code", "tells"),
    [
        ("raise KeyboardInterrupt", 130, ""),
        (
            "raise ModuleNotFoundError(name='isal')",
            1,
            "mq_client needs isal: in Evenkeel's checkout, pip install '.[mq]'\n",
        ),
    ],
    ids=["Ctrl-C", "missing"],
)
def test_what_happens_at_the_imports_is_told_in_a_line(
    peer: Peer, tmp_path: Path, what_happens: str, code: int, tells: str
) -> None:
    (tmp_path / "isal.py").write_text(what_happens)
    assert run(peer, "topics", PYTHONPATH=str(tmp_path)) == (code, "", tells)
