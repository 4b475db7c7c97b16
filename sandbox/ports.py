"""
Finds free ports on loopback and keeps them for their owner until they are released.

A broker with port N also uses the ports N - 2 and N + 1. This module binds N - 1, which nothing
else uses. While that port is bound, other processes that call this module skip all four ports. When
this process ends, in whatever way, the kernel frees the port.
"""

import random
import socket
from collections.abc import Sequence

# Each is the first of four ports, below those that Linux uses for outgoing connections.
_FIRSTS: Sequence[int] = range(20_000, 32_000, 4)


class NoFreePortError(Exception):
    """All ports are taken, probably by processes that never ended."""


class PortClaim:
    """Four neighbouring ports, reserved for one owner."""

    def __init__(self, first: int) -> None:
        """Take the four ports; `OSError` if one is in use."""
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
        """Release the ports."""
        self._mark.close()


def claim() -> PortClaim:
    """Claim four free ports. The server must listen on `port` of the claim."""
    for first in random.SystemRandom().sample(_FIRSTS, len(_FIRSTS)):
        try:
            return PortClaim(first)
        except OSError:
            continue
    raise NoFreePortError(f"no four free ports from {_FIRSTS[0]} to {_FIRSTS[-1] + 3}")


def _check_free(port: int) -> None:
    """Check a port on all interfaces, because a broker binds one of its ports to all of them."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do
        probe.bind(("", port))
