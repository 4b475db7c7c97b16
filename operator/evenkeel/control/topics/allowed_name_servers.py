"""
Which name servers Topics may name. Pure.

The operator connects to what a Topic names, from its own place in the network. Where not everybody
who may make a Topic should choose that, a list says where it may go. What an allowed name server
tells of its brokers is believed.
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


def checked(pattern: str) -> str:
    """Check that a pattern can match; a `ManifestError` says how one looks."""
    host, _, port = pattern.lower().rpartition(":")
    is_network = "/" in host and _network(host) is not None
    is_address = _address(host) is not None
    is_name = bool(host) and set(host) <= _OF_NAMES | {"*"}
    is_port = port == "*" or (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16)
    if not is_port or not (is_network or is_address or is_name):
        raise ManifestError(
            f"{pattern!r} allows no name server: say one as in mq.example:9876, *.mq.svc:9876, "
            "10.0.0.0/8:9876 or [fd00::/8]:*"
        )
    return pattern.lower()


def refuse_others(topic: Topic, patterns: Sequence[str]) -> None:
    """Refuse a topic that names others; no pattern allows all."""
    for server in topic.spec.name_servers or () if patterns else ():
        if not is_allowed(server, patterns):
            raise NotReadyError(
                ConditionReason.NAME_SERVER_NOT_ALLOWED,
                f"{topic}: the operator may not connect to {server}: name another one, or have "
                "it added to the operator's --allow-name-servers",
            )


def is_allowed(server: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern is for it. Names are compared as names: nothing is looked up."""
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
    network, address = _network(wanted), _address(host)
    if network is not None:
        return address is not None and address in network
    return address is None and set(host) <= _OF_NAMES and fnmatch.fnmatchcase(host, wanted)


def _network(host: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Read a network, or an address as a network of its own."""
    try:
        return ipaddress.ip_network(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
