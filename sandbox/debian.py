"""
Takes programs from Debian's packages.

`find_program` unpacks a package into the cache, and apt uses package lists in a folder of ours. So
`find_program` needs no root. Unlike an installation, it starts no services. `install` is for
programs with many dependencies: it installs their packages, which needs root.
"""

import os
import shutil
from pathlib import Path

from sandbox import jars, process, progress


class NoDebianError(process.SandboxError):
    """A program cannot be taken from Debian's packages on this machine."""


def find_program(package: str, path: str) -> Path:
    """Find a program on PATH; if it is not there, unpack the package that has it at `path`."""
    found = shutil.which(Path(path).name)
    if found:
        return Path(found)
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise NoDebianError(
                f"{Path(path).name} is not on PATH, and without {tool} it cannot be taken from "
                f"Debian's package {package}: install it"
            )
    folder = jars.find_cache() / "debian" / package
    jars.make_once(folder, f"{package}, from Debian's package", lambda to: _unpack(package, to))
    return folder / path


def install(*packages: str, program: str = "") -> None:
    """Install packages whose program is not on PATH; the program usually has the package's name."""
    missing = [package for package in packages if shutil.which(program or package) is None]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NoDebianError(
            f"missing: {', '.join(missing)}; install it, or run as root, to install it with apt-get"
        )
    progress.say(f"installing {' and '.join(missing)} with apt-get")
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
