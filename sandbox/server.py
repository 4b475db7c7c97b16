"""The base class of all servers of the sandbox: ports, start and end."""

import abc
from dataclasses import dataclass
from pathlib import Path

from sandbox import ports, process

_START_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Site:
    """The place of servers: this machine's loopback, or a separate network."""

    address: str
    enter: tuple[str, ...] = ()
    """A prefix that lets commands run at this place; empty if none is needed."""


LOOPBACK = Site("127.0.0.1")


class SandboxServer(abc.ABC):
    """A server that keeps its data and address until its sandbox ends, even if it is killed."""

    def __init__(self, name: str) -> None:
        """Claim the ports; start nothing yet."""
        self.name = name
        self._ports = ports.claim()

    @property
    def port(self) -> int:
        """The server's port, at the address of its site."""
        return self._ports.port

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    @property
    def log(self) -> Path:
        """The file with its output and log."""
        return self._process.log

    @property
    def is_running(self) -> bool:
        """Whether the server's process runs."""
        return self._process.is_running

    def start(self) -> None:
        """Start the server with the data in its folder."""
        self._process = self._start_process()

    def wait_until_ready(self) -> None:
        """Wait until the server answers; a `PartNotReadyError` shows its log."""
        self._process.wait_until(self._is_ready, _START_SECONDS)

    def kill(self) -> None:
        """Kill the server, as kill -9 does."""
        self._process.kill()

    def restart(self) -> None:
        """Kill the server if it runs, start it again, and wait until it is ready."""
        self.kill()
        self.start()
        self.wait_until_ready()

    def release(self) -> None:
        """Release the server's ports."""
        self._ports.release()

    @abc.abstractmethod
    def _start_process(self) -> process.ChildProcess:
        """Start the server's process."""

    @abc.abstractmethod
    def _is_ready(self) -> bool:
        """Whether the server answers. This is called repeatedly."""
