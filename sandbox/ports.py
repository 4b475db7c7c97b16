"""
Finds free ports on loopback and keeps them for their owner until they are released.

A broker takes three: the one it is given, two below it, and one above. The fourth, between them, is
bound here and never used: as long as it is bound, everybody else who asks here passes on, other
processes and other users too, and the kernel gives it back whatever ends this process.
"""

import random
import socket
from collections.abc import Sequence

# Below the ports that Linux hands out by itself to outgoing connections.
_FIRSTS: Sequence[int] = range(20_000, 32_000, 4)


class NoFreePortError(Exception):
    """All ports are taken, which points to something that never ends."""


class Claim:
    """Four neighbouring ports that nobody else is given."""

    def __init__(self, first: int) -> None:
        """Take them; an `OSError` when one is in use."""
        self.port = first + 2
        self._mark = socket.socket()
        try:
            self._mark.bind(("127.0.0.1", first + 1))
            for port in (first, self.port, self.port + 1):
                _check_free(port)
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Give them back."""
        self._mark.close()


def claim() -> Claim:
    """Claim four free ports; `port` is the one to listen on."""
    for first in random.SystemRandom().sample(_FIRSTS, len(_FIRSTS)):
        try:
            return Claim(first)
        except OSError:
            continue
    raise NoFreePortError(f"no four free ports from {_FIRSTS[0]} to {_FIRSTS[-1] + 3}")


def _check_free(port: int) -> None:
    """On all interfaces, for one of a broker's ports is bound so."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do
        probe.bind(("", port))
