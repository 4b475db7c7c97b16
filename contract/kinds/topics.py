"""`Topic`: where the queues of a topic are, and how many queues it must have."""

import enum
from typing import Annotated, ClassVar

from msgspec import Meta

from contract.kinds.parts import (
    Conditions,
    Count,
    Duration,
    HostPort,
    LocalRef,
    MqName,
    Part,
    Rule,
    TellerName,
    Text,
    key_by,
    make_immutable,
)


class Perm(enum.Enum):
    READ_WRITE = "ReadWrite"
    READ = "Read"
    WRITE = "Write"


class Tls(Part, frozen=True):
    ca_secret_ref: LocalRef | None = None
    """Secret whose entry ca.crt contains trusted CA certificates. Default: those of the system."""
    insecure_skip_verify: bool = False
    """Do not verify certificates. Only for tests."""


class Provision(Part, frozen=True):
    RULES: ClassVar = (
        Rule(
            "self.writeQueues <= self.readQueues",
            "writeQueues must not exceed readQueues: otherwise some messages could not be read",
        ),
    )

    read_queues: Annotated[int, Meta(ge=1, le=4096)]
    """Readable queues on each broker."""
    write_queues: Annotated[int, Meta(ge=1, le=4096)]
    """Writable queues on each broker."""
    perm: Perm = Perm.READ_WRITE
    """Whether clients may read, write, or both."""


class BrokerQueues(Part, frozen=True):
    broker: Text
    """Name of a broker group."""
    read_queues: Count
    """Readable queues."""
    write_queues: Count
    """Writable queues."""
    perm: Perm = Perm.READ_WRITE
    """Whether clients may read, write, or both."""
    zone: Text | None = None
    """Zone of the broker."""


class AwayBroker(Part, frozen=True):
    broker: Text
    """Name of a broker group that is no longer in the route."""
    since: Text
    """Time since which the broker has been missing."""


Brokers = Annotated[list[BrokerQueues], Meta(max_length=256), key_by("broker")]
Route = Annotated[list[BrokerQueues], Meta(min_length=1, max_length=256), key_by("broker")]


class TopicSpec(Part, frozen=True):
    RULES: ClassVar = (
        make_immutable("topic"),
        Rule("has(self.nameServers) != has(self.route)", "set either nameServers or route"),
        Rule(
            "!has(self.route) || !(has(self.provision) || has(self.credentialsSecretRef)"
            " || has(self.tls))",
            "provision, credentialsSecretRef and tls require nameServers",
        ),
    )

    topic: MqName | None = None
    """Name of the topic in RocketMQ. Default: the object's name."""
    name_servers: Annotated[list[HostPort], Meta(min_length=1, max_length=16)] | None = None
    """Name servers, each as host:port."""
    credentials_secret_ref: LocalRef | None = None
    """Secret with accessKey and secretKey."""
    tls: Tls | None = None
    """TLS settings. If set, connections use TLS."""
    refresh_interval: Duration = "30s"
    """Interval at which the route is read from the name servers."""
    provision: Provision | None = None
    """Create the topic, and maintain its numbers of queues."""
    route: Route | None = None
    """Static route, for tests without a name server."""


class TopicStatus(Part, frozen=True):
    observed_generation: int = 0
    """Generation of the spec for which this status was written."""
    brokers: Brokers = []
    """Last known route, including the queues of missing brokers."""
    away: Annotated[list[AwayBroker], Meta(max_length=256), key_by("broker")] = []
    """Missing brokers. Their queues keep their owners for ten minutes."""
    read_queues: Count = 0
    """Readable queues on all brokers."""
    write_queues: Count = 0
    """Writable queues on all brokers."""
    route_hash: str = ""
    """Hash of the route; it changes with the route."""
    claims: Annotated[list[TellerName], Meta(max_length=16)] = []
    """
    Name servers at which this object reserves the topic: no other object may provision it there.
    """
    conditions: Conditions = []
    """Ready, Provisioned, Conflicted."""
