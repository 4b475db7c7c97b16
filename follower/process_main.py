"""
Runs the user's handler in a process of its own, for a follower.

The process receives calls over a socket, one at a time. It answers each call with the error that
the handler raised, if any. The process ends when its follower ends, even if the follower is killed.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import traceback
from typing import Any

from follower import importing, packing
from follower.calling import end_if_forked, is_coroutine_function
from follower.positions import MovedOnError

_PR_SET_PDEATHSIG = 1
Answer = tuple[bool, str, str] | None
"""An error of a call: whether it is a `MovedOnError`, its text, its traceback. None: no error."""


def main(place: str, descriptor: int, parent: int) -> None:
    """Serve calls of a handler until the follower closes the socket."""
    end_with_parent(parent)
    # Ctrl-C signals all processes of a terminal. The follower decides what to do then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with (
        socket.socket(fileno=descriptor) as peer,
        peer.makefile("rb") as calls,
        asyncio.Runner() as runner,
    ):
        handler = importing.import_handler(place)
        process = os.getpid()
        with contextlib.suppress(EOFError):
            while True:
                packed, step = _read(calls)
                answer = _call(handler, (packing.unpack_messages(packed), *step), runner)
                end_if_forked(process)
                peer.sendall(packing.pack(answer))


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent has ended already
        os._exit(0)


def _read(calls: Any) -> Any:
    head = calls.read(packing.LENGTH.size)
    if len(head) < packing.LENGTH.size:
        raise EOFError
    return packing.unpack(calls.read(*packing.LENGTH.unpack(head)))


def _call(handler: Any, arguments: tuple[Any, ...], runner: asyncio.Runner) -> Answer:
    try:
        if is_coroutine_function(handler):
            runner.run(handler(*arguments))
        else:
            handler(*arguments)
    except BaseException as error:  # noqa: BLE001  # whatever the user's code raises
        text = "".join(traceback.format_exception_only(error)).strip()
        return isinstance(error, MovedOnError), text, traceback.format_exc()
    return None
