"""Rules of the whole project: its names, its imports, its files and its seeds."""

import ast
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import evenkeel
from tests import tracked_files

ROOT = Path(__file__).parents[2]

IMPORT_ALL_OF_LB_CORE = """
import sys
sys.path.insert(0, sys.argv[1])
import importlib, json, pkgutil, lb_core
for module in pkgutil.walk_packages(lb_core.__path__, "lb_core."):
    importlib.import_module(module.name)
print(json.dumps({name: str(getattr(m, "__file__", "")) for name, m in sys.modules.items()}))
"""

A_TEST_THAT_FAILS_WITH_ITS_SEED = """
def test_it(seed, rng):
    raise AssertionError(f"drew {rng.random()}")
"""


def python(*arguments: str, cwd: Path = ROOT) -> str:
    """Run a separate Python; return its output, whatever its exit code."""
    command = [sys.executable, *arguments]
    answer = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return answer.stdout + answer.stderr


def test_the_folder_operator_is_no_package() -> None:
    """A package would hide the standard library's `operator` from every Python started here."""
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_a_python_started_at_the_root_imports_the_operator_of_the_standard_library() -> None:
    answer = python("-c", "import collections, operator; print(operator.__file__)")
    assert Path(answer.strip()).parent == Path(sysconfig.get_path("stdlib"))


def test_each_folder_of_unit_tests_is_a_folder_of_the_code() -> None:
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    roots = (ROOT, ROOT / "operator")
    assert [name for name in folders if not any((root / name).is_dir() for root in roots)] == []


def test_the_version_is_told_in_two_places_and_is_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == evenkeel.__version__


def test_lb_core_needs_nothing_but_the_standard_library() -> None:
    """A Python that knows only the root folder can import all modules of `lb_core`."""
    answer = python("-I", "-S", "-c", IMPORT_ALL_OF_LB_CORE, str(ROOT))
    assert answer.startswith("{"), answer
    origins: dict[str, str] = json.loads(answer)
    foreign = {
        name: origin
        for name, origin in origins.items()
        if name.split(".")[0] not in sys.stdlib_module_names | {"__main__"}
        and not origin.startswith(f"{ROOT}/lb_core/")
    }
    assert foreign == {}


def test_the_contract_imports_the_standard_library_and_msgspec_alone() -> None:
    names = {
        name
        for path in (ROOT / "contract").rglob("*.py")
        for each in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in imported(each)
    }
    assert {"contract", "msgspec"} <= names
    assert names - sys.stdlib_module_names == {"contract", "msgspec"}


def imported(node: ast.AST) -> list[str]:
    """List the top-level packages that a statement imports."""
    match node:
        case ast.Import(names):
            return [each.name.partition(".")[0] for each in names]
        case ast.ImportFrom(module=str(module)):
            return [module.partition(".")[0]]
        case _:
            return []


def test_no_tracked_file_holds_what_must_not_be_committed() -> None:
    try:
        files = tracked_files.tracked(ROOT)
    except tracked_files.CannotListError as error:
        pytest.skip(f"cannot check the tracked files: {error}")
    assert [line for path in files for line in tracked_files.complaints(path)] == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("see https://" + "pypi" + ".org/project/x", id="registry"),
        pytest.param("https://files." + "python" + "hosted.org/x", id="registry's files"),
        pytest.param("cd /" + "root/evenkeel", id="root's home"),
        pytest.param("open('/home" + "/ann/notes')", id="a user's home"),
        pytest.param("-----BEGIN RSA " + "PRIVATE KEY-----", id="private key"),
        pytest.param("from tests.unit.test_one import builder", id="of a test module"),
        pytest.param("from tests.unit import other, test_one", id="a test module"),
        pytest.param("import tests.unit.test_one", id="a test module as a whole"),
    ],
)
def test_what_must_not_be_committed_is_found(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.md"
    path.write_text(f"first\n{text}\n")
    assert [line.startswith(f"{path}:2: ") for line in tracked_files.complaints(path)] == [True]


@pytest.mark.parametrize("before", ["out", "https://example.org", "${HOME}"])
def test_an_innocent_path_is_no_complaint(tmp_path: Path, before: str) -> None:
    path = tmp_path / "notes.md"
    path.write_text(before + "/" + "root/part")
    assert list(tracked_files.complaints(path)) == []


def test_a_broken_toml_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("[project")
    assert [line.split(": ")[1] for line in tracked_files.complaints(path)] == ["does not parse"]


def test_a_random_test_that_fails_prints_the_call_that_fails_the_same_way(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(A_TEST_THAT_FAILS_WITH_ITS_SEED)
    pytest_here = ("-m", "pytest", f"--rootdir={tmp_path}", "-p", "no:cacheprovider")
    first = python(*pytest_here, cwd=tmp_path)
    call = re.search(r"-m pytest (\S+) --seed (\d+)\n", first)
    assert call is not None
    again = python(*pytest_here, call[1], "--seed", call[2], cwd=tmp_path)
    drew = re.compile(r"drew [\d.e-]+")
    assert drew.findall(first)[0] == drew.findall(again)[0]
