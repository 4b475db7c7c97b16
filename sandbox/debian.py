"""
Programs from Debian's packages, unpacked into the cache: the machine itself is not changed.

apt downloads the package lists into a folder of ours. So no root is needed, and nothing that a
package starts at installation is started. Only programs with many dependencies are installed, and
only by root.
"""

import os
import shutil
from pathlib import Path

from sandbox import jars, process, progress


class NoDebianError(process.SandboxError):
    """A program cannot be taken from Debian's packages here."""


def find_program(package: str, path: str) -> Path:
    """Find a program on PATH, or else unpack the package that has it at this path."""
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
    """Install packages whose program is not on PATH; by default it has the package's name."""
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
