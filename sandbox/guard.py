"""
A program of its own: ends a process, or removes a folder, when its caller is gone.

    guard.py run COMMAND...    start the command, tell its pid, end with it and with its exit code
    guard.py keep PREFIX       make a folder in the place for temporary files, tell its path

Its standard input is a pipe whose other end only the caller holds. The kernel closes that end
whatever ends the caller, kill -9 included; then the command's process group is killed, or the
folder removed. A byte in the pipe asks the command to end by itself (SIGTERM). What is told comes
on standard output; the command's output goes to this program's standard error. `sandbox.process`
is the caller. A bare interpreter (-I -S) runs this file by its path, to be there in an instant.
"""

import ctypes
import os
import select
import signal
import sys
from types import FrameType
from typing import NoReturn

_CALLER = 0
_OUTPUT = 2
_SET_SIGNAL_AT_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>


def run(command: list[str]) -> int:
    """Be the parent of the command until it ends or the caller does; return its exit code."""
    signal.signal(signal.SIGTERM, _leave)
    ended = _wakes_when_a_child_ends()
    child = os.fork()
    if child == 0:
        _become(command)
    try:
        _own_group(child)
        _tell(str(child))
        while _in_order(child, ended):
            pass
    finally:
        os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def keep(prefix: str) -> None:
    """Make a folder and remove it when nobody holds the pipe any more."""
    import shutil
    import tempfile

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    folder = tempfile.mkdtemp(prefix=prefix)
    try:
        _tell(folder)
        while os.read(_CALLER, 1):
            pass
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _in_order(child: int, ended: int) -> bool:
    """Wait for one event; whether the command runs on after it."""
    ready, _, _ = select.select([_CALLER, ended], [], [])
    if ended in ready:
        os.read(ended, 1)
        # It stays unreaped, so that its group's id cannot be given to anybody else yet.
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    if not os.read(_CALLER, 1):
        return False
    os.kill(child, signal.SIGTERM)
    return True


def _wakes_when_a_child_ends() -> int:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return reader


def _become(command: list[str]) -> NoReturn:
    """Turn this new process into the command, which dies with the guard."""
    try:
        _own_group(os.getpid())
        _die_with_parent()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(_OUTPUT, 1)
        os.execvp(command[0], command)  # noqa: S606 - to start what it was given is its purpose
    except OSError as error:
        os.write(_OUTPUT, f"{command[0]} does not start: {error}\n".encode())
    finally:
        os._exit(127)


def _own_group(child: int) -> None:
    """Called by parent and child, as shells do: whoever is first, the group is there in time."""
    try:
        os.setpgid(child, child)
    except (PermissionError, ProcessLookupError):
        return  # the child came first, and may even have ended


def _die_with_parent() -> None:
    """Only Linux has it: a command whose guard was killed is killed by the kernel."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_SIGNAL_AT_PARENTS_DEATH, signal.SIGKILL)


def _tell(text: str) -> None:
    print(text, flush=True)


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        sys.exit(run(sys.argv[2:]))
    keep(sys.argv[2])
