"""
Starts a PostgreSQL on loopback. If this machine has none, root installs Debian's package.

    with postgres.run() as database:
        psycopg.connect(database)

The block gets the address of an empty database, which is gone when the block ends. The data does
not survive a crash of the machine, because the database is only for tests.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from sandbox import debian, ports, process

_START_SECONDS = 60.0
_INSTALLED = Path("/usr/lib/postgresql")
_PACKAGE = "postgresql"
_NOBODY = "nobody"
_SETTINGS = ("fsync=off", "unix_socket_directories=", "listen_addresses=127.0.0.1")


def find_program(name: str) -> Path:
    """Find a program of the newest installed PostgreSQL; if there is none, install Debian's."""
    found = _find_installed(name)
    if found is None:
        debian.install(_PACKAGE)
        found = _find_installed(name)
    if found is None:
        raise debian.NoDebianError(f"Debian's package {_PACKAGE} has no program {name}")
    return found


def _find_installed(name: str) -> Path | None:
    folders = sorted(_INSTALLED.glob("*/bin"), key=lambda each: each.parent.name.zfill(4))
    found = shutil.which(name, path=os.pathsep.join(map(str, reversed(folders))))
    found = found or shutil.which(name)
    return Path(found) if found else None


@contextlib.contextmanager
def run() -> Iterator[str]:
    """Run a server; the block gets the address of its database `postgres`."""
    initdb, server = find_program("initdb"), find_program("postgres")
    claimed = ports.claim()
    with contextlib.ExitStack() as running:
        running.callback(claimed.release)
        place = running.enter_context(process.make_folder("evenkeel-postgres-"))
        data = place.path / "data"
        data.mkdir(0o700)
        as_user: list[str | Path] = []
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            place.path.chmod(0o711)
            shutil.chown(data, _NOBODY)
            as_user = ["setpriv", f"--reuid={_NOBODY}", "--clear-groups", "--"]
        subprocess.run(
            [*as_user, initdb, "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        settings = [part for each in _SETTINGS for part in ("-c", each)]
        command: list[str | Path] = [
            *as_user,
            server,
            "-D",
            data,
            "-p",
            str(claimed.port),
            *settings,
        ]
        child = process.ChildProcess("postgres", command, place, {})
        child.wait_until(lambda: child.has_said("ready to accept connections"), _START_SECONDS)
        yield f"host=127.0.0.1 port={claimed.port} user=postgres dbname=postgres"
