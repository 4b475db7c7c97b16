"""Each extra in pyproject.toml installs all that its part imports, and small extras stay small."""

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWNERS = importlib.metadata.packages_distributions()
REFUSE = """
import importlib.abc, json, pkgutil, sys

class Refuse(importlib.abc.MetaPathFinder):
    names = set(json.loads(sys.argv.pop(1)))

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"no module named {name}", name=name)

sys.meta_path.insert(0, Refuse())
"""
IMPORT_ALL = """
import evenkeel_cli
for module in pkgutil.walk_packages(evenkeel_cli.__path__, "evenkeel_cli."):
    importlib.import_module(module.name)
"""
PLAN = """
from evenkeel_cli import frame
sys.exit(frame.main(["plan", "-f", sys.argv[1], "--executors", "3"]))
"""


def requirements(extra: str) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    files = project["tool"]["setuptools"]["dynamic"]["optional-dependencies"][extra]["file"]
    lines = [line for file in files for line in (ROOT / file).read_text().splitlines()]
    return {name(line) for line in lines if line.partition("#")[0].strip()}


def name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def bring(extra: str) -> set[str]:
    """Return the distributions that installing this extra brings."""
    brought: set[str] = set()
    waiting = requirements(extra)
    while waiting:
        one = waiting.pop()
        brought.add(one)
        needs = importlib.metadata.requires(one) or []
        plain = {name(each) for each in needs if "extra ==" not in each}
        waiting |= {each for each in plain if is_installed(each)} - brought
    return brought


def is_installed(distribution: str) -> bool:
    """Return whether a distribution is installed: some are only for other Python versions."""
    try:
        importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def run(extra: str, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that can import only what the extra installs."""
    brought = bring(extra) | {"evenkeel"}
    refused = [
        module
        for module, owners in OWNERS.items()
        # yarl tries to import pydantic_core, but works without it.
        if module != "pydantic_core" and not any(name(owner) in brought for owner in owners)
    ]
    return subprocess.run(
        [sys.executable, "-c", REFUSE + code, json.dumps(refused), *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_extra_cli_is_enough_for_the_modules_of_the_commands() -> None:
    ended = run("cli", IMPORT_ALL)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_extra_cli_is_enough_to_plan_a_file() -> None:
    """`evenkeel plan` checks the file by the rules of the kinds, so it loads their evaluator."""
    ended = run("cli", PLAN, "examples/files/plan.yaml")
    assert (ended.returncode, ended.stderr) == (2, "")
    assert "queues move" in ended.stdout


def test_the_extra_mq_is_enough_for_the_client_without_columns() -> None:
    ended = run("mq", "import mq_client.aio, mq_client.blocking, mq_client.command_line")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_extra_arrow_is_enough_for_columns() -> None:
    ended = run("arrow", "import mq_client.blocking, mq_client.columns")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_extra_operator_is_enough_for_the_service() -> None:
    ended = run("operator", "import evenkeel.cluster.app, evenkeel.embedded.app")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_extra_follower_is_enough_for_a_member() -> None:
    ended = run("follower", "import follower.command_line")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_extra_spark_is_enough_for_the_driver() -> None:
    ended = run("spark", "import mq_client.columns, spark_jobs.pipeline.driver, spark_jobs.source")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("extra", "absent"),
    [
        ("cli", {"aiohttp", "kopf", "isal", "lz4", "numpy", "pyarrow", "pyspark"}),
        ("mq", {"numpy", "pyarrow", "pyspark", "msgspec"}),
        ("follower", {"kopf", "numpy", "pyarrow", "pyspark"}),
        ("operator", {"numpy", "pandas", "pyarrow", "pyspark"}),
    ],
)
def test_a_small_extra_brings_nothing_large(extra: str, absent: set[str]) -> None:
    assert bring(extra) & absent == set()
