"""
Ends a process, or removes a folder, when the caller of this program is gone.

    guard.py run COMMAND...    start the command, print its pid, and exit with its exit code
    guard.py keep PREFIX       make a temporary folder, and print its path

This program is called the guard. Its standard input is a pipe whose other end only the caller
holds. When the caller ends, even by kill -9, the kernel closes that end. Then the guard kills the
command's process group, or removes the folder. A byte in the pipe asks the command to end
(SIGTERM). The guard prints to standard output. The command's output goes to the guard's standard
error. The caller is `sandbox.process`. A bare interpreter (-I -S) runs this file by its path, so
that it starts fast.
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
    """Run the command until it or the caller ends; return its exit code."""
    signal.signal(signal.SIGTERM, _leave)
    ended = _watch_children()
    child = os.fork()
    if child == 0:
        _turn_into(command)
    try:
        _set_own_group(child)
        _print(str(child))
        while _wait_for_event(child, ended):
            pass
    finally:
        os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def keep(prefix: str) -> None:
    """Make a folder, and remove it when no process holds the pipe any more."""
    import shutil
    import tempfile

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    folder = tempfile.mkdtemp(prefix=prefix)
    try:
        _print(folder)
        while os.read(_CALLER, 1):
            pass
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_event(child: int, ended: int) -> bool:
    """Wait for one event; return whether the command still runs after it."""
    ready, _, _ = select.select([_CALLER, ended], [], [])
    if ended in ready:
        os.read(ended, 1)
        # Do not reap the child yet, so that the kernel cannot reuse the id of its group.
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    if not os.read(_CALLER, 1):
        return False
    os.kill(child, signal.SIGTERM)
    return True


def _watch_children() -> int:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return reader


def _turn_into(command: list[str]) -> NoReturn:
    """Turn this new process into the command, which dies with the guard."""
    try:
        _set_own_group(os.getpid())
        _die_with_parent()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(_OUTPUT, 1)
        os.execvp(command[0], command)  # noqa: S606 - its purpose is to start the given command
    except OSError as error:
        os.write(_OUTPUT, f"{command[0]} does not start: {error}\n".encode())
    finally:
        os._exit(127)


def _set_own_group(child: int) -> None:
    """Give the child its own process group. Guard and child call this: either can be first."""
    try:
        os.setpgid(child, child)
    except (PermissionError, ProcessLookupError):
        return  # the child did it first, and may even have ended


def _die_with_parent() -> None:
    """Make the kernel kill the command when its guard is killed. Only Linux supports that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_SIGNAL_AT_PARENTS_DEATH, signal.SIGKILL)


def _print(text: str) -> None:
    print(text, flush=True)


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        sys.exit(run(sys.argv[2:]))
    keep(sys.argv[2])
