"""
Keeps two `evenkeel run` apart: of one state folder, and of one file on this machine.

Both would start drivers of the same groups, which would read everything twice. The kernel gives a
lock back when its process ends, however that ends.
"""

import contextlib
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from evenkeel.errors import EvenkeelError


class NotAloneError(EvenkeelError):
    """Another process runs the same."""


@contextlib.contextmanager
def alone(file: Path, folder: Path) -> Iterator[None]:
    """Hold both locks until left; an error that names the other process if one of them is held."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        _locked(folder / ".lock", f"the state folder {folder}", "give another one by --state"),
        _locked(_beside(file), f"the file {file}", "end that one first"),
    ):
        yield


def _beside(file: Path) -> Path:
    """Name the lock of a file: editors replace files, and may not be let into their folders."""
    name = hashlib.sha256(os.fsencode(file.resolve())).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"evenkeel-run-{name}.lock")


@contextlib.contextmanager
def _locked(path: Path, what: str, advice: str) -> Iterator[None]:
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise NotAloneError(f"{what}: its lock {path} cannot be opened: {error}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            who = os.pread(lock, 32, 0).decode(errors="replace").strip()
            raise NotAloneError(
                f"{what} is run by another evenkeel run already, process {who or 'unknown'}; "
                f"{advice}"
            ) from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)
