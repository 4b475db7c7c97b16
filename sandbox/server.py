"""What all servers of the sandbox have in common: ports of their own, and a life."""

import abc
from dataclasses import dataclass
from pathlib import Path

from sandbox import ports, process

_START_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Site:
    """Where servers run: on this machine's loopback, or in a network of the sandbox's own."""

    address: str
    enter: tuple[str, ...] = ()
    """The command, if any, by which a program starts there."""


LOOPBACK = Site("127.0.0.1")


class Server(abc.ABC):
    """A server that keeps data and address, whatever is done to it, until its sandbox is left."""

    def __init__(self, name: str) -> None:
        """Claim the ports; nothing runs yet."""
        self.name = name
        self._ports = ports.claim()

    @property
    def port(self) -> int:
        """Where it listens, at the address of its site."""
        return self._ports.port

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def log(self) -> Path:
        """All that it prints and logs."""
        return self._process.log

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process.is_running

    def start(self) -> None:
        """Start it with what its folder holds."""
        self._process = self._started()

    def wait_until_ready(self) -> None:
        """Return when it serves; a `NotReadyError` shows its log when it will not."""
        self._process.wait_until(self._is_ready, _START_SECONDS)

    def kill(self) -> None:
        """End it at once, as kill -9 does."""
        self._process.kill()

    def restart(self) -> None:
        """Start it again, after a kill if it still runs; return when it is ready."""
        self.kill()
        self.start()
        self.wait_until_ready()

    def release(self) -> None:
        """Give its ports back."""
        self._ports.release()

    @abc.abstractmethod
    def _started(self) -> process.Process:
        """Start its process."""

    @abc.abstractmethod
    def _is_ready(self) -> bool:
        """Whether it serves; asked again and again."""
