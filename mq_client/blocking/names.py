"""
Resolve host names in threads, because the system call for lookups blocks.

Each name has a thread of its own. The engine calls `deliver` to get the results, and holds its lock
during this call.
"""

import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

Places = list[tuple[Any, ...]]
OnFound = Callable[[Places | OSError], None]


class Names:
    """The lookups in progress. Their threads call `wake` when there is a result to deliver."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Store `wake`. No thread is started yet."""
        self._wake = wake
        self._waiting: dict[tuple[str, int], list[OnFound]] = {}
        self._ended: deque[tuple[tuple[str, int], Places | OSError]] = deque()

    def look_up(self, host: str, port: int, on_found: OnFound) -> None:
        """
        Find the addresses of a host.

        If the host is an IP address, this method calls `on_found` itself. If it is a name, a later
        call of `deliver` does so. An invalid name raises an `OSError` or `UnicodeError`.
        """
        try:
            places = _resolve(host, port, socket.AI_NUMERICHOST)
        except socket.gaierror:
            self._look_up_in_thread(host, port, on_found)
        else:
            on_found(places)

    def deliver(self) -> None:
        """Call `on_found` for all finished lookups."""
        while self._ended:
            key, outcome = self._ended.popleft()
            for on_found in self._waiting.pop(key, ()):
                on_found(outcome)

    def _look_up_in_thread(self, host: str, port: int, on_found: OnFound) -> None:
        key = (host, port)
        if key in self._waiting:
            self._waiting[key].append(on_found)
            return
        self._waiting[key] = [on_found]
        thread = threading.Thread(
            target=self._run, args=(key,), name=f"looks up {host}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the system cannot start another thread
            del self._waiting[key]
            raise OSError(str(error)) from error

    def _run(self, key: tuple[str, int]) -> None:
        outcome: Places | OSError
        try:
            outcome = _resolve(*key, 0)
        except OSError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001  # callers wait for this name
            outcome = OSError(str(error))
        self._ended.append((key, outcome))
        self._wake()


def _resolve(host: str, port: int, flags: int) -> Places:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
