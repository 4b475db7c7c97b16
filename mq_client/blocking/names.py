"""
Look host names up without keeping anybody waiting: the system's own call blocks.

Each name has a thread of its own while it is looked up, and never two. What was found waits until
`deliver` is called, under the lock of whoever owns the links.
"""

import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

Places = list[tuple[Any, ...]]
Found = Callable[[Places | OSError], None]


class Names:
    """Lookups under way. `wake` is called, by their threads, when there is something to deliver."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Start nothing yet."""
        self._wake = wake
        self._waiting: dict[tuple[str, int], list[Found]] = {}
        self._ended: deque[tuple[tuple[str, int], Places | OSError]] = deque()

    def look_up(self, host: str, port: int, found: Found) -> None:
        """
        Find the addresses of a host; an address is its own, at once.

        A name is passed to `found` by `deliver`; one that is none at all raises an `OSError` or
        `UnicodeError`.
        """
        try:
            places = _places(host, port, socket.AI_NUMERICHOST)
        except socket.gaierror:
            self._look_up_in_thread(host, port, found)
        else:
            found(places)

    def deliver(self) -> None:
        """Pass on what was found since."""
        while self._ended:
            key, outcome = self._ended.popleft()
            for found in self._waiting.pop(key, ()):
                found(outcome)

    def _look_up_in_thread(self, host: str, port: int, found: Found) -> None:
        key = (host, port)
        if key in self._waiting:
            self._waiting[key].append(found)
            return
        self._waiting[key] = [found]
        thread = threading.Thread(
            target=self._run, args=(key,), name=f"looks up {host}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the system has no thread left
            del self._waiting[key]
            raise OSError(str(error)) from error

    def _run(self, key: tuple[str, int]) -> None:
        outcome: Places | OSError
        try:
            outcome = _places(*key, 0)
        except OSError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001  # somebody waits for this name
            outcome = OSError(str(error))
        self._ended.append((key, outcome))
        self._wake()


def _places(host: str, port: int, flags: int) -> Places:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
