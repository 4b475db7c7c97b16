"""
Locks that prevent two processes of `evenkeel run` from using the same state folder or file.

Both would start drivers for the same groups, so all messages would be read twice. The kernel
releases the locks of a process, however the process ends.
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
    """Another process holds a lock."""


@contextlib.contextmanager
def hold_locks(file: Path, folder: Path) -> Iterator[None]:
    """Hold both locks while the block runs. The error names a process that already holds one."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        _hold_lock(
            folder / ".lock", f"the state folder {folder}", "choose another one with --state"
        ),
        _hold_lock(_find_lock(file), f"the file {file}", "end that process first"),
    ):
        yield


def _find_lock(file: Path) -> Path:
    """Find the path of a file's lock, outside the file's folder, which may be read-only."""
    name = hashlib.sha256(os.fsencode(file.resolve())).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"evenkeel-run-{name}.lock")


@contextlib.contextmanager
def _hold_lock(path: Path, what: str, advice: str) -> Iterator[None]:
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
                f"another evenkeel run already uses {what}, process {who or 'unknown'}; {advice}"
            ) from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)
