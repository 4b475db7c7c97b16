"""The wheel that is built from this checkout: its contents, and its commands in an empty folder."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "contract", "coordinator", "evenkeel", "evenkeel_cli", "follower", "lb_core", "mq_client",
    "spark_jobs",
)  # fmt: skip
FOLDERS = {name: ROOT / name for name in PACKAGES} | {"evenkeel": ROOT / "operator" / "evenkeel"}
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files. The build uses a copy, because it leaves files beside the sources."""
    copy, made = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    sources = [ROOT / "requirements", *FOLDERS.values()]
    for folder in sources:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(folder, copy / folder.relative_to(ROOT), ignore=ignored)
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(made)],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = made.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(made / "unpacked")
    return made / "unpacked"


def run(unpacked: Path, folder: Path, command: str, *arguments: str) -> tuple[int, str]:
    """Run one of the wheel's commands as pip's script for it does."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts[command].partition(":")
    code = f"import sys; from {module} import {function}; sys.exit({function}())"
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


def test_the_wheel_holds_every_module_and_says_that_it_has_types(unpacked: Path) -> None:
    held = {
        str(path.relative_to(unpacked))
        for name in PACKAGES
        for path in (unpacked / name).rglob("*")
        if path.is_file()
    }
    expected = {
        str(Path(name) / path.relative_to(folder))
        for name, folder in FOLDERS.items()
        for path in folder.rglob("*.py")
    }
    assert held == expected | {f"{name}/py.typed" for name in PACKAGES}


def test_the_wheels_command_plans_a_file_from_an_empty_folder(
    unpacked: Path, tmp_path: Path
) -> None:
    file = str(ROOT / "examples" / "files" / "plan.yaml")
    code, shown = run(unpacked, tmp_path, "evenkeel", "plan", "-f", file, "--executors", "3")
    assert (code, shown.splitlines()[0]) == (2, "billing: 2 queues move")


@pytest.mark.parametrize(
    ("command", "name"), [("evenkeel", "evenkeel"), ("kubectl-evenkeel", "kubectl evenkeel")]
)
def test_the_wheels_commands_explain_themselves(
    unpacked: Path, tmp_path: Path, command: str, name: str
) -> None:
    code, shown = run(unpacked, tmp_path, command, "--help")
    assert (code, shown.partition(" [")[0]) == (0, f"usage: {name}")
