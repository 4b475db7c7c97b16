"""
A client's memory between calls: which name server answers, and the routes of topics.

A new directory can always replace an old one, because a client can request all its contents again.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mq_client import errors
from mq_client.acl import Credentials
from mq_client.filters import Filter
from mq_client.values import BrokerRoute, Route

if TYPE_CHECKING:
    from mq_client.machine import Machine

ON_CHANGE = Callable[[str, Route | None, Route], None]


@dataclass(frozen=True, slots=True)
class Times:
    """Timeouts and pauses, in seconds."""

    connect: float = 3.0
    """Timeout for a connection, including TLS."""
    answer: float = 5.0
    """Timeout for an answer. For a long poll, the poll's time and `LATE_POLL` are added."""
    route_age: float = 30.0
    """A route older than this is requested again, as in RocketMQ's own clients."""
    first_pause: float = 0.1
    """Pause before the first retry. It doubles with each retry."""
    longest_pause: float = 0.5
    """A broker that is back is asked within this time: most of them are away for 3 to 5 s."""
    patience: float = 60.0
    """How long a pull from a dead broker is retried before it fails."""

    def make_pauses(self) -> Iterator[float]:
        """Yield the pause before each retry."""
        pause = self.first_pause
        while True:
            yield pause
            pause = min(2 * pause, self.longest_pause)


IDLE_SECONDS = 60.0
"""Connections idle for this long are not reused: brokers close them after 120 s."""
LATE_POLL = 5.0
"""How much longer than requested a long poll may take: brokers check the time only every 5 s."""
UNLISTED_SECONDS = 30.0
"""For so long, a broker that a route has lost may be asked at its last address."""
DEFAULT_TIMES = Times()


class Directory:
    """The name servers (the one that answered last is first), and the routes with their age."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        machine: "Machine",
        times: Times = DEFAULT_TIMES,
        credentials: Credentials | None = None,
    ) -> None:
        """Accept name servers as a list, or in RocketMQ's form `a:9876;b:9876`."""
        found = name_servers.split(";") if isinstance(name_servers, str) else name_servers
        self.name_servers = [check_address(text) for text in found if text.strip()]
        if not self.name_servers:
            raise errors.UsageError("no name server is given; an example is 'localhost:9876'")
        self.now = machine.now
        self.wall_ms = machine.wall_ms
        self.new_key = machine.new_key
        self.times = times
        self.credentials = credentials
        self.on_route_change: ON_CHANGE | None = None
        self.filters_understood: set[tuple[str, Filter]] = set()
        """Pairs of a broker's address and a filter that this broker has compiled."""
        self._routes: dict[str, tuple[Route, float]] = {}
        self._unlisted: dict[str, dict[str, tuple[BrokerRoute, float]]] = {}
        """By topic and broker: brokers with addresses that routes have lost, and when."""

    def trust(self, name_server: str) -> None:
        """Ask this name server first from now on."""
        if self.name_servers[0] != name_server:
            others = [address for address in self.name_servers if address != name_server]
            self.name_servers = [name_server, *others]

    def find_route(self, topic: str, max_age: float) -> Route | None:
        """Return the route of a topic, if it is not older than `max_age` seconds."""
        route, since = self._routes.get(topic, (None, 0.0))
        return route if route is not None and self.now() - since <= max_age else None

    def find_last_route(self, topic: str) -> Route | None:
        """Return the last known route, however old."""
        return self._routes[topic][0] if topic in self._routes else None

    def note(self, route: Route) -> None:
        """Remember a route, and call `on_route_change` if it differs from the last one."""
        before = self.find_last_route(route.topic)
        self._routes[route.topic] = (route, self.now())
        listed = {each.broker for each in route.brokers if each.addresses}
        for each in before.brokers if before is not None else ():
            if each.addresses and each.broker not in listed:
                self.note_unlisted(route.topic, each)
        if route != before and self.on_route_change is not None:
            self.on_route_change(route.topic, before, route)

    def note_unlisted(self, topic: str, broker: BrokerRoute) -> None:
        """Remember a broker of a topic whose route may not contain it now."""
        self._unlisted.setdefault(topic, {})[broker.broker] = (broker, self.now())

    def list_unlisted(self, topic: str) -> list[BrokerRoute]:
        """
        List the brokers that the topic's last route does not contain, but did lately.

        A name server drops a broker whose connection ends. The broker may be back long before it is
        listed again: if its first registration fails, the next one follows after 10 to 30 s.
        """
        route = self.find_last_route(topic)
        listed = {each.broker for each in route.brokers if each.addresses} if route else set()
        return [
            broker
            for broker, since in list(self._unlisted.get(topic, {}).values())
            if broker.broker not in listed and self.now() - since <= UNLISTED_SECONDS
        ]

    def forget(self, topic: str) -> None:
        """Forget the route of a topic."""
        self._routes.pop(topic, None)
        self._unlisted.pop(topic, None)


def check_address(text: str) -> str:
    """Check that a string is host:port. IPv6 addresses may have brackets."""
    host, _, port = text.strip().rpartition(":")
    if (
        not re.fullmatch(r"[^\s,;]+", host)
        or not re.fullmatch("[0-9]{1,5}", port)
        or not 0 < int(port) < 1 << 16
    ):
        raise errors.UsageError(f"{text!r} is not an address such as localhost:9876 or [::1]:9876")
    return text.strip()


def split_address(address: str) -> tuple[str, int]:
    """Split an address. RocketMQ writes IPv6 hosts with brackets or without."""
    host, _, port = check_address(address).rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)
