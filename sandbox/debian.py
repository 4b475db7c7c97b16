"""
Programs from Debian's packages, unpacked into the cache: nothing of the machine is changed.

The lists of packages are the machine's own; where it has none, apt fetches them into a folder of
ours. So no root is needed, and what a package would start when it is installed is not started. Only
programs that need much more than themselves are installed, where root is at work.
"""

import os
import shutil
from pathlib import Path

from sandbox import jars, process, progress


class NoDebianError(process.SandboxError):
    """A program cannot come from Debian's packages here."""


def program(package: str, path: str) -> Path:
    """Find a program on PATH, else unpack the package that has it at this path."""
    found = shutil.which(Path(path).name)
    if found:
        return Path(found)
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise NoDebianError(
                f"{Path(path).name} is not on PATH, and without {tool} it cannot be taken from "
                f"Debian's package {package}: install it"
            )
    folder = jars.cache() / "debian" / package
    jars.made_once(folder, f"{package}, from Debian's package", lambda to: _unpack(package, to))
    return folder / path


def install(*packages: str, program: str = "") -> None:
    """Install packages whose program, of the same name if none is given, is not on PATH."""
    missing = [package for package in packages if shutil.which(program or package) is None]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NoDebianError(
            f"here is no {' and no '.join(missing)}: install it; root's runs have apt-get do so"
        )
    progress.say(f"installing {' and '.join(missing)} by apt-get")
    quiet = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes")
    jars.run(*quiet, "update")
    jars.run(*quiet, "install", "--no-install-recommends", *missing)


def _unpack(package: str, to: Path) -> None:
    state, fetched = to / "apt", to / "fetched"
    for folder in (state / "lists" / "partial", fetched):
        folder.mkdir(parents=True)
    ours = ("-o", f"Dir::State::lists={state / 'lists'}", "-o", f"Dir::Cache={state}")
    jars.run("apt-get", *ours, "update")
    jars.run("apt-get", *ours, "download", package, cwd=fetched)
    (archive,) = fetched.glob("*.deb")
    jars.run("dpkg-deb", "-x", archive, to)
    for folder in (state, fetched):
        shutil.rmtree(folder)
