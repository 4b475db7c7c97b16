"""Completion of a command line, from the parser, the kubeconfig and the cluster."""

import subprocess
from pathlib import Path

import pytest

from evenkeel_cli import candidates, completion, frame, grammar, shells

EVENKEEL = """#!/bin/sh
shift # __complete
printf 'pause\\tlet queues stay\\nplan\\n' | grep "^$1"
case "$2" in *f) echo :0 ;; *) echo :4 ;; esac
"""


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"group": ["billing", "orders"], "pods": ["pod-a", "pod-b"], "namespace": ["team-a"]}
    monkeypatch.setattr(candidates, "_find_in_cluster", lambda what, _: known[what.rstrip("s")
                        if what == "groups" else what])  # fmt: skip


def offered(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert frame.main(["__complete", *words]) == 0
    return [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["p"], ["plan", "pause", ":4"]),
        (["--v"], ["--version", ":4"]),
        (["pause", ""], ["billing", "orders", ":4"]),
        (["pause", "o"], ["orders", ":4"]),
        (["pause", "orders", ""], [":4"]),
        (["plan", "orders", ""], ["billing", ":4"]),
        (["drain", "pod-a", ""], ["pod-b", ":4"]),
        (["drain", "--undo", ""], ["pod-a", "pod-b", ":4"]),
        (["top", "-n", ""], ["team-a", ":4"]),
        (["top", "--namespace", "team-a", "b"], ["billing", ":4"]),
        (["top", "--namespace=team-a", "b"], ["billing", ":4"]),
        (["-n", "team-a", "top", "b"], ["billing", ":4"]),
        (["-n", ""], ["team-a", ":4"]),
        (["--kubeconfig", ""], [":0"]),
        (["-n", "team-a", "to"], ["top", ":4"]),
        (["top", "-o", ""], ["table", "json", "yaml", ":4"]),
        (["top", "--o"], ["--once", "--output", ":4"]),
        (["plan", "-f", ""], [":0"]),
        (["run", "--state", ""], [":0"]),
        (["explain", "billing", "--queue", ""], [":4"]),
        (["pause", "--timeout", ""], [":4"]),
        (["completion", ""], ["bash", "zsh", "fish", ":4"]),
        (["frob", ""], [":4"]),
        ([], [*grammar.COMMANDS, ":4"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_may_come_next(
    words: list[str], found: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert offered(capsys, *words) == found


def test_candidates_have_their_meaning_after_a_tab(capsys: pytest.CaptureFixture[str]) -> None:
    completion.offer("kubectl evenkeel", ["sk"])
    summary = grammar.COMMANDS["skip"][1]
    assert capsys.readouterr().out == f"skip\t{summary}\n:4\n"


def test_contexts_are_those_of_the_kubeconfig(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config"
    path.write_text(
        "contexts: [{name: b, context: {cluster: c}}, {name: a, context: {cluster: c}}]"
    )
    assert offered(capsys, "top", "--kubeconfig", str(path), "--context", "") == ["a", "b", ":4"]


def test_without_a_cluster_nothing_is_offered_and_nothing_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    monkeypatch.setenv("HOME", "/nowhere")
    assert offered(capsys, "pause", "") == [":4"]


@pytest.mark.parametrize("shell", shells.SCRIPTS)
def test_each_shell_has_its_part(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(["completion", shell]) == 0
    assert "evenkeel __complete" in capsys.readouterr().out


def test_bash_takes_what_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test uses an `evenkeel` that always offers the same words."""
    program = tmp_path / "evenkeel"
    program.write_text(EVENKEEL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    script = f"""{shells.BASH}
COMP_WORDS=(evenkeel p); COMP_CWORD=1; _evenkeel; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(evenkeel plan -f {tmp_path}/even); COMP_CWORD=3; _evenkeel; echo "${{COMPREPLY[@]}}"
"""
    command = ["bash", "--norc", "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == (f"pause plan\n{tmp_path}/evenkeel\n", "")
