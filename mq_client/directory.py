"""
What a client remembers between calls: which name server answers, and where topics are.

Nothing is lost if a directory is: it is asked for again.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mq_client import errors
from mq_client.acl import Credentials
from mq_client.filters import Filter
from mq_client.values import Route

if TYPE_CHECKING:
    from mq_client.machine import Machine

ON_CHANGE = Callable[[str, Route | None, Route], None]


@dataclass(frozen=True, slots=True)
class Times:
    """How long is waited for what, in seconds."""

    connect: float = 3.0
    """For a connection, TLS included."""
    answer: float = 5.0
    """For an answer. A long poll comes on top, and the 5 s that brokers may end it late."""
    route_age: float = 30.0
    """A route is asked for again when it is older. RocketMQ's own clients do as well."""
    first_pause: float = 0.1
    """Before the first new try. It doubles with each."""
    longest_pause: float = 2.0
    patience: float = 60.0
    """A pull that meets a dead broker tries for so long; then the error is the caller's."""

    def pauses(self) -> Iterator[float]:
        """Tell how long to wait before each new try."""
        pause = self.first_pause
        while True:
            yield pause
            pause = min(2 * pause, self.longest_pause)


IDLE_SECONDS = 60.0
"""Brokers close a connection after 120 s without traffic; one that may be closing is not used."""
LATE_POLL = 5.0
"""Brokers look only every 5 s whether a long poll is over."""
DEFAULT_TIMES = Times()


class Directory:
    """Name servers in the order of trust, and routes with their age."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        machine: "Machine",
        times: Times = DEFAULT_TIMES,
        credentials: Credentials | None = None,
    ) -> None:
        """Take name servers as a list, or as RocketMQ's `a:9876;b:9876`."""
        found = name_servers.split(";") if isinstance(name_servers, str) else name_servers
        self.name_servers = [checked_address(text) for text in found if text.strip()]
        if not self.name_servers:
            raise errors.UsageError("no name server was given, as in 'localhost:9876'")
        self.now = machine.now
        self.wall_ms = machine.wall_ms
        self.new_key = machine.new_key
        self.times = times
        self.credentials = credentials
        self.on_route_change: ON_CHANGE | None = None
        self.filters_understood: set[tuple[str, Filter]] = set()
        """By the broker's address: it compiled them."""
        self._routes: dict[str, tuple[Route, float]] = {}

    def trust(self, name_server: str) -> None:
        """Ask this one first from now on."""
        if self.name_servers[0] != name_server:
            others = [address for address in self.name_servers if address != name_server]
            self.name_servers = [name_server, *others]

    def route(self, topic: str, max_age: float) -> Route | None:
        """Find a route that is young enough."""
        route, since = self._routes.get(topic, (None, 0.0))
        return route if route is not None and self.now() - since <= max_age else None

    def last_route(self, topic: str) -> Route | None:
        """Find the last route, however old."""
        return self._routes[topic][0] if topic in self._routes else None

    def note(self, route: Route) -> None:
        """Remember a route; tell who wants to know if it is another one."""
        before = self.last_route(route.topic)
        self._routes[route.topic] = (route, self.now())
        if route != before and self.on_route_change is not None:
            self.on_route_change(route.topic, before, route)

    def forget(self, topic: str) -> None:
        """Forget the route of a topic."""
        self._routes.pop(topic, None)


def checked_address(text: str) -> str:
    """Check that a text is host:port; the host may be a name, IPv4, or IPv6 in brackets or not."""
    host, _, port = text.strip().rpartition(":")
    if (
        not re.fullmatch(r"[^\s,;]+", host)
        or not re.fullmatch("[0-9]{1,5}", port)
        or not 0 < int(port) < 1 << 16
    ):
        raise errors.UsageError(f"{text!r} is no address, as in localhost:9876 or [::1]:9876")
    return text.strip()


def host_and_port(address: str) -> tuple[str, int]:
    """Split an address. RocketMQ writes IPv6 hosts with brackets or without."""
    host, _, port = checked_address(address).rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)
