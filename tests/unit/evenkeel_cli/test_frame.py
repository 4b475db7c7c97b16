"""The behaviour that all commands share: exit codes, errors, help, and how fast they start."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenkeel_cli import frame, grammar, kubectl
from evenkeel_cli.codes import FAILED, INTERRUPTED, MISUSED

NOT_FOR_PEOPLE = (
    "aiohttp", "isal", "kopf", "lz4", "numpy", "pyarrow", "pyspark", "spark_jobs", "zstandard",
)  # fmt: skip
SLOW = ("kopf", "aiohttp", "yaml", "msgspec", "rich", "asyncio", "prometheus_client")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "evenkeel_cli", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("arguments", [[], ["frob"], ["plan", "--frob"], ["plan", "-o", "xml"]])
def test_what_cannot_be_understood_ends_with_a_code_that_plan_does_not_use(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        frame.main(arguments)
    assert ended.value.code == MISUSED
    assert "--help" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (["-n", "a", "top", "b"], ["top", "-n", "a", "b"]),
        (["--context=c", "-A", "plan"], ["plan", "--context=c", "-A"]),
        (["top", "-n", "a"], ["top", "-n", "a"]),
        (["--help"], ["--help"]),
        (["-n"], ["-n"]),
        ([], []),
    ],
    ids=" ".join,
)
def test_kubectls_options_may_stand_before_the_command(
    written: list[str], meant: list[str]
) -> None:
    assert grammar.move_command_first(written) == meant


@pytest.mark.parametrize("command", grammar.COMMANDS)
def test_the_help_of_each_command_teaches_by_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        frame.main([command, "--help"], "kubectl evenkeel")
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert f"kubectl evenkeel {command} " in shown.partition("\nexamples:\n")[2] + " "


@pytest.mark.parametrize("command", grammar.COMMANDS)
def test_no_line_of_help_is_too_long_for_a_terminal(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        frame.main([command, "--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 90


def test_what_takes_long_to_load_is_not_loaded_to_show_what_there_is() -> None:
    code = f"""
import sys
from evenkeel_cli import frame, grammar
grammar.make_parser("evenkeel", []).format_help()
print([name for name in {SLOW} if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def test_no_command_for_people_loads_the_operators_libraries_arrays_or_spark() -> None:
    """The extra `cli` installs the commands without these libraries."""
    code = f"""
import importlib, pkgutil, sys
import evenkeel_cli
for module in pkgutil.walk_packages(evenkeel_cli.__path__, "evenkeel_cli."):
    importlib.import_module(module.name)
print(sorted(name for name in {NOT_FOR_PEOPLE} if name in sys.modules))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def test_a_cluster_that_is_not_there_is_one_sentence() -> None:
    ended = run("top", KUBECONFIG="/nowhere", HOME="/nowhere")
    assert ended.returncode == FAILED
    assert ended.stderr == (
        "evenkeel: no kubeconfig was found: KUBECONFIG names /nowhere, which does not exist\n"
    )
    ended = run("top", KUBECONFIG="", HOME="/nowhere")
    assert ended.stderr.startswith(
        "evenkeel: no cluster is chosen: use --kubeconfig, set KUBECONFIG, "
    )


def test_an_api_server_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "contexts: [{name: a, context: {cluster: a}}]\n"
        "current-context: a\n"
    )
    ended = run("drain", "x", "--kubeconfig", str(kubeconfig))
    assert ended.returncode == FAILED
    assert ended.stderr.startswith(
        "evenkeel: the API server https://127.0.0.1:1 does not answer: [Errno 111] Connection "
    )
    assert ended.stderr.count("\n") == 1


def test_nothing_that_is_said_commands_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(["plan", "-f", "\x1b[31mred"]) == FAILED
    assert capsys.readouterr().err == "evenkeel: ·[31mred: No such file or directory\n"


def test_kubectls_plugin_calls_itself_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl-evenkeel", "explain", "x", "--kubeconfig", "/no"])
    assert kubectl.main() == FAILED
    assert capsys.readouterr().err.startswith("kubectl evenkeel: the kubeconfig /no cannot be read")


@pytest.fixture
def _minds_ctrl_c() -> Iterator[None]:
    """Let child processes react to Ctrl-C, which background processes of a shell ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_minds_ctrl_c")
def test_ctrl_c_ends_without_a_word(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    os.mkfifo(manifests)
    with (
        subprocess.Popen(
            [sys.executable, "-m", "evenkeel_cli", "plan", "-f", str(manifests)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as command,
        manifests.open("w"),
    ):  # the pipe is full until something reads it
        command.send_signal(signal.SIGINT)
        said, _ = command.communicate()
    assert (command.returncode, said) == (INTERRUPTED, b"")


def test_a_reader_that_has_seen_enough_is_no_failure_to_complain_of() -> None:
    """An example is `evenkeel plan -f x | head`."""
    command = [sys.executable, "-m", "evenkeel_cli", "completion", "bash"]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (FAILED, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [["completion", "bash"], ["__complete", "pl"]], ids=" ".join)
def test_an_answer_that_cannot_be_written_is_one_sentence(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "evenkeel_cli", *words],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (
        FAILED, "evenkeel: the answer cannot be written: No space left on device\n"
    )  # fmt: skip


def run_without(library: str, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    (folder / f"{library}.py").write_text(f"raise ModuleNotFoundError(name={library!r})")
    path = filter(None, (str(folder), os.environ.get("PYTHONPATH")))
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "library", "extra"),
    [
        ("plan -f x", "msgspec", "cli"),
        ("explain x", "msgspec", "cli"),
        ("check", "msgspec", "cli"),
        ("top", "rich", "cli"),
        ("run -f x", "msgspec", "operator"),
        ("operator", "kopf", "operator"),
    ],
)
def test_a_library_that_is_missing_is_one_sentence_that_names_the_extra(
    command: str, library: str, extra: str, tmp_path: Path
) -> None:
    ended = run_without(library, tmp_path, "-m", "evenkeel_cli", *command.split())
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        FAILED, "",
        f"evenkeel {command.split()[0]} needs {library}: "
        f"in Evenkeel's checkout, pip install '.[{extra}]'\n",
    )  # fmt: skip


@pytest.mark.parametrize("command", ["operator", "run"])
def test_the_help_of_what_starts_the_service_needs_none_of_its_libraries(
    command: str, tmp_path: Path
) -> None:
    ended = run_without("aiohttp", tmp_path, "-m", "evenkeel_cli", command, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("call", ["main", "complete"])
def test_kubectls_plugin_says_so_too(call: str, tmp_path: Path) -> None:
    code = f"""
import sys
from evenkeel_cli import kubectl
sys.argv = ["kubectl-evenkeel", "explain", "x"]
sys.exit(kubectl.{call}())
"""
    ended = run_without("msgspec", tmp_path, "-c", code)
    assert ended.returncode == FAILED
    command = {"main": " explain", "complete": ""}[call]
    assert ended.stderr == (
        f"kubectl evenkeel{command} needs msgspec: in Evenkeel's checkout, pip install '.[cli]'\n"
    )
