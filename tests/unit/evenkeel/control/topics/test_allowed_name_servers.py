"""The addresses to which the operator connects for a Topic."""

import asyncio
from typing import cast

import pytest

from evenkeel.cluster.api.api_client import Api
from evenkeel.cluster.watch.cluster_cache import ClusterCache
from evenkeel.cluster.world import ClusterWorld
from evenkeel.control.topics import allowed_name_servers
from evenkeel.errors import ManifestError
from evenkeel.planning import NotReadyError
from tests.job_objects import a_topic


@pytest.mark.parametrize(
    ("server", "pattern"),
    [
        ("mq.example:9876", "mq.example:9876"),
        ("MQ.example:9876", "mq.EXAMPLE:9876"),
        ("a.b.mq.svc:9876", "*.mq.svc:9876"),
        ("mq:1", "mq:*"),
        ("10.1.2.3:9876", "10.0.0.0/8:9876"),
        ("10.1.2.3:9876", "10.1.2.3:9876"),
        ("[fd00::1]:9876", "[fd00::/8]:*"),
        ("fd00::1:9876", "[fd00::1]:9876"),
    ],
)
def test_a_name_server_is_allowed_by_name_address_or_network(server: str, pattern: str) -> None:
    patterns = ["elsewhere:1", allowed_name_servers.check_pattern(pattern)]
    assert allowed_name_servers.is_allowed(server, patterns)
    allowed_name_servers.refuse_others(a_topic(nameServers=[server]), patterns)


@pytest.mark.parametrize(
    ("server", "pattern"),
    [
        ("mq.example:9877", "mq.example:9876"),
        ("mq.example.evil:9876", "mq.example:9876"),
        ("mq.svc:9876", "*.mq.svc:9876"),
        ("11.1.2.3:9876", "10.0.0.0/8:9876"),
        ("ten.example:9876", "10.0.0.0/8:9876"),
        ("169.254.169.254:80", "*:80"),
        ("127.1:9876", "127.0.0.0/8:9876"),
        ("evil:80;x.mq.svc:9876", "*.mq.svc:9876"),
        ("evil/x.mq.svc:9876", "*.mq.svc:9876"),
        ("mq.example:0", "mq.example:*"),
    ],
    ids=["another port", "a longer name", "no part of it", "another network", "a name",
         "an address by a name's pattern", "an address written as a name", "two", "a path",
         "no port"],
)  # fmt: skip
def test_others_are_refused(server: str, pattern: str) -> None:
    patterns = [allowed_name_servers.check_pattern(pattern)]
    assert not allowed_name_servers.is_allowed(server, patterns)
    with pytest.raises(NotReadyError, match="the operator may not connect to") as refusal:
        allowed_name_servers.refuse_others(
            a_topic(nameServers=["mq.example:9876", server]), patterns
        )
    assert refusal.value.reason == "NameServerNotAllowed"


def test_without_a_list_all_are_allowed() -> None:
    allowed_name_servers.refuse_others(a_topic(nameServers=["anywhere:1"]), [])


@pytest.mark.parametrize(
    "pattern", ["", "mq", "mq:0", "mq:99999", ":9876", "a b:1", "10.0.0.0/99:1"]
)
def test_a_pattern_that_can_match_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(ManifestError, match="matches no name server"):
        allowed_name_servers.check_pattern(pattern)


def test_a_topic_that_leads_elsewhere_gets_no_connection() -> None:
    world = ClusterWorld(cast("Api", None), ClusterCache(), "")
    world.allowed = ["*.mq.svc:9876"]
    topic = a_topic(nameServers=["169.254.169.254:80"], credentialsSecretRef={"name": "acl"})
    with pytest.raises(NotReadyError, match=r"may not connect to 169\.254\.169\.254:80"):
        asyncio.run(world.find_cluster(topic))
