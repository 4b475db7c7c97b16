"""
Programs from Debian's packages, unpacked into the cache: nothing of the machine is changed.

The lists of packages are the machine's own; where it has none, apt fetches them into a folder of
ours. So no root is needed, and what a package would start when it is installed is not started.
"""

import shutil
from pathlib import Path

from sandbox import jars, process


class NoDebianError(process.SandboxError):
    """This machine has no apt, so a program cannot come from there."""


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
