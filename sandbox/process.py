"""
Starts child processes that end with their caller, however the caller ends.

A guard process (`sandbox.guard`) is the parent of each child. A pipe, which is called the leash,
leads from this process to the guard. When `kill` closes the leash, or when this process dies and
the kernel closes the leash, the guard kills the child. A folder has a guard too. The children also
hold the folder's leash, so that the folder is removed only after the last child has ended.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from sandbox import jars, progress

_GUARD = Path(__file__).with_name("guard.py")
_PAUSE_SECONDS = 0.03
_QUIET_SECONDS = 10.0
_LAST_LINES = 20


class SandboxError(Exception):
    """The base class of errors when servers start or end."""


class PartNotReadyError(SandboxError):
    """A process ended too early, or did not become ready. The error names a copy of its log."""

    def __init__(self, complaint: str, log: Path, *, gives_up: str | None = None) -> None:
        """
        Quote the end of the log, which contains the reason, without Java stack frames.

        `gives_up` is the text that the process prints when it gives up. The lines after this text
        do not contain the reason.
        """
        self.log = _keep_log(log)
        text = _read(log)
        if gives_up is not None and gives_up in text:
            before, _, after = text.rpartition(gives_up)
            text = before + gives_up + after.partition("\n")[0]
        lines = [line for line in text.splitlines() if line.strip() and line[:4] != "\tat "]
        said = "".join(f"\n  {line}" for line in lines[-_LAST_LINES:]) or " nothing"
        super().__init__(f"{complaint}; the log {self.log} ends with:{said}")


class Folder:
    """A folder for the data and logs of some processes. It is removed after they have ended."""

    def __init__(self, prefix: str) -> None:
        """Make the folder. The prefix of its name shows who has made it."""
        self._leash = _Leash()
        self._leashes: list[_Leash] = []
        self.path = Path(self._leash.start_guard("keep", prefix))

    def close(self) -> None:
        """End all processes of the folder, remove it, and wait until it is gone."""
        leashes = [*self._leashes, self._leash]
        for leash in leashes:
            leash.let_go()
        for leash in leashes:
            leash.wait()

    def make_leash(self) -> "_Leash":
        """Make a leash that is closed when this folder is closed, if not before."""
        leash = _Leash()
        self._leashes.append(leash)
        return leash

    @property
    def held_by(self) -> int:
        """The file descriptor to inherit: the folder stays while a process has it open."""
        return self._leash.end


@contextlib.contextmanager
def make_folder(prefix: str) -> Iterator[Folder]:
    """Make a folder that is removed when the block ends, or when this process is killed."""
    made = Folder(prefix)
    try:
        yield made
    finally:
        made.close()


class ChildProcess:
    """A child process. Its output is appended to its log."""

    def __init__(
        self, name: str, command: Sequence[str | Path], place: Folder, env: Mapping[str, str]
    ) -> None:
        """Start the process in its own folder; `env` is added to the caller's environment."""
        self.name = name
        self.log = place.path / f"{name}.log"
        home = place.path / name
        home.mkdir(exist_ok=True)
        self._leash = place.make_leash()
        with self.log.open("ab") as log:
            self._said_before = log.tell()
            pid = self._leash.start_guard(
                "run", *command, output=log.fileno(), also=place.held_by, cwd=home, env=env
            )
        self.pid = int(pid)

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended yet."""
        return self.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process; None while it runs."""
        return self._leash.exit_code()

    def has_said(self, text: str) -> bool:
        """Whether the output of this process contains a text."""
        return text in _read(self.log, self._said_before)

    def wait_until(self, happened: Callable[[], bool], seconds: float) -> None:
        """Wait for an event. Raise `PartNotReadyError` if the process ends, or time is over."""
        started = time.monotonic()
        reported = started
        while not happened():
            now = time.monotonic()
            code = self.exit_code
            if code is not None:
                raise PartNotReadyError(f"{self.name} ended with code {code}", self.log)
            if now - started > seconds:
                raise PartNotReadyError(f"{self.name} is not ready after {seconds:g} s", self.log)
            if now - reported > _QUIET_SECONDS:
                progress.say(f"{self.name} has been starting for {now - started:.0f} s")
                reported = now
            time.sleep(_PAUSE_SECONDS)

    def kill(self) -> None:
        """Kill the process and all its children, as kill -9 does."""
        self._leash.let_go()
        self._leash.wait()

    def stop(self, seconds: float) -> None:
        """Ask the process to end, give it some time, and then kill it."""
        self._leash.ask_to_end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._leash.wait(seconds)
        self.kill()


class _Leash:
    """The pipe to one guard. The guard acts when no process holds the other end any more."""

    _held: "set[_Leash]" = set()  # noqa: RUF012 - all leashes of this process

    def __init__(self) -> None:
        self._guards_end, self.end = os.pipe()
        self._guard: subprocess.Popen[bytes] | None = None
        _Leash._held.add(self)

    def start_guard(
        self,
        *arguments: str | Path,
        output: int | None = None,
        also: int | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Start the guard, which Ctrl-C does not reach; return the line that it prints."""
        try:
            self._guard = guard = subprocess.Popen(
                [sys.executable, "-I", "-S", _GUARD, *arguments],
                stdin=self._guards_end,
                stdout=subprocess.PIPE,
                stderr=output,
                pass_fds=() if also is None else (also,),
                cwd=cwd,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        finally:
            os.close(self._guards_end)
        assert guard.stdout is not None
        with guard.stdout as stream:
            line = stream.readline().decode().strip()
        if not line:
            raise SandboxError(f"the guard ended with code {self.wait()} before it began")
        return line

    def exit_code(self) -> int | None:
        """Return the guard's exit code, which is the code of its process; None while it runs."""
        return self._guard.poll() if self._guard else None

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait until the guard ends, if it was started: a signal may have prevented its start."""
        return self._guard.wait(seconds) if self._guard else None

    def ask_to_end(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self.end, b".")

    def let_go(self) -> None:
        if self in _Leash._held:
            _Leash._held.discard(self)
            os.close(self.end)

    @classmethod
    def let_all_go(cls) -> None:
        for leash in list(cls._held):
            leash.let_go()


# A forked process must not keep the children of its parent alive.
os.register_at_fork(after_in_child=_Leash.let_all_go)


def _read(log: Path, start: int = 0) -> str:
    with log.open("rb") as stream:
        stream.seek(start)
        return stream.read().decode(errors="replace")


def _keep_log(log: Path) -> Path:
    """Copy a log out of its folder; a later log with the same name replaces the copy."""
    kept = jars.find_cache() / "logs" / log.name
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(log, kept)
    return kept
