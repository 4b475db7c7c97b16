"""
Checks whether Topics name only allowed name servers. Pure.

The operator connects, from its own network, to the name servers that a Topic names. A list of
patterns can limit which addresses a Topic may contain. Addresses of brokers that an allowed
name server returns are trusted.
"""

import fnmatch
import ipaddress
from collections.abc import Iterable, Sequence

from contract.conditions import ConditionReason
from evenkeel.errors import ManifestError
from evenkeel.objects import Topic
from evenkeel.planning import NotReadyError
from mq_client import directory, errors

_OF_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-_")


def check_pattern(pattern: str) -> str:
    """Check a pattern, and return it in lower case."""
    host, _, port = pattern.lower().rpartition(":")
    is_network = "/" in host and _parse_network(host) is not None
    is_address = _parse_address(host) is not None
    is_name = bool(host) and set(host) <= _OF_NAMES | {"*"}
    is_port = port == "*" or (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16)
    if not is_port or not (is_network or is_address or is_name):
        raise ManifestError(
            f"{pattern!r} matches no name server: use a pattern such as mq.example:9876, "
            "*.mq.svc:9876, 10.0.0.0/8:9876 or [fd00::/8]:*"
        )
    return pattern.lower()


def refuse_others(topic: Topic, patterns: Sequence[str]) -> None:
    """If there are patterns, refuse a topic with a name server that matches none of them."""
    for server in topic.spec.name_servers or () if patterns else ():
        if not is_allowed(server, patterns):
            raise NotReadyError(
                ConditionReason.NAME_SERVER_NOT_ALLOWED,
                f"{topic}: the operator may not connect to {server}: use another name server, or "
                "add this one to the operator's --allow-name-servers",
            )


def is_allowed(server: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern matches a server. Host names are compared as text, without DNS."""
    try:
        host, port = directory.split_address(server.lower())
    except errors.UsageError:
        return False
    return any(_matches(host, str(port), *_split(pattern)) for pattern in patterns)


def _split(pattern: str) -> tuple[str, str]:
    host, _, port = pattern.rpartition(":")
    return host, port


def _matches(host: str, port: str, wanted: str, wanted_port: str) -> bool:
    if wanted_port not in ("*", port):
        return False
    network, address = _parse_network(wanted), _parse_address(host)
    if network is not None:
        return address is not None and address in network
    return address is None and set(host) <= _OF_NAMES and fnmatch.fnmatchcase(host, wanted)


def _parse_network(host: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Parse a network. A single address is a network too."""
    try:
        return ipaddress.ip_network(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
