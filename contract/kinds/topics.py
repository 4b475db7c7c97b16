"""`Topic`: where a topic's queues are, and how many there shall be."""

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
    listed_by,
    once,
)


class Perm(enum.Enum):
    READ_WRITE = "ReadWrite"
    READ = "Read"
    WRITE = "Write"


class Tls(Part, frozen=True):
    ca_secret_ref: LocalRef | None = None
    """Secret whose entry ca.crt holds the authorities to trust; without it, the system's."""
    insecure_skip_verify: bool = False
    """Trust anybody. For trying out."""


class Provision(Part, frozen=True):
    RULES: ClassVar = (
        Rule(
            "self.writeQueues <= self.readQueues",
            "nobody could read all that is written: at most as many writeQueues as readQueues",
        ),
    )

    read_queues: Annotated[int, Meta(ge=1, le=4096)]
    """Readable queues on each broker."""
    write_queues: Annotated[int, Meta(ge=1, le=4096)]
    """Writable queues on each broker."""
    perm: Perm = Perm.READ_WRITE
    """What producers and consumers may do."""


class BrokerQueues(Part, frozen=True):
    broker: Text
    """Name of a broker group."""
    read_queues: Count
    """Readable queues."""
    write_queues: Count
    """Writable queues."""
    perm: Perm = Perm.READ_WRITE
    """What producers and consumers may do."""
    zone: Text | None = None
    """Zone that the broker stands in."""


class AwayBroker(Part, frozen=True):
    broker: Text
    """Name of a broker group that the name server does not tell of any more."""
    since: Text
    """Since when."""


Brokers = Annotated[list[BrokerQueues], Meta(max_length=256), listed_by("broker")]
Route = Annotated[list[BrokerQueues], Meta(min_length=1, max_length=256), listed_by("broker")]


class TopicSpec(Part, frozen=True):
    RULES: ClassVar = (
        once("topic"),
        Rule("has(self.nameServers) != has(self.route)", "give either nameServers or route"),
        Rule(
            "!has(self.route) || !(has(self.provision) || has(self.credentialsSecretRef)"
            " || has(self.tls))",
            "provision, credentialsSecretRef and tls need nameServers",
        ),
    )

    topic: MqName | None = None
    """RocketMQ's name of the topic. Default: the object's name."""
    name_servers: Annotated[list[HostPort], Meta(min_length=1, max_length=16)] | None = None
    """Name servers, each as host:port."""
    credentials_secret_ref: LocalRef | None = None
    """Secret with accessKey and secretKey."""
    tls: Tls | None = None
    """Speak TLS."""
    refresh_interval: Duration = "30s"
    """How often the route is read again."""
    provision: Provision | None = None
    """Create the topic, and keep its queue counts so."""
    route: Route | None = None
    """The queues, where there is no name server to ask: for trying out."""


class TopicStatus(Part, frozen=True):
    observed_generation: int = 0
    """Generation of the spec that this follows from."""
    brokers: Brokers = []
    """The route as it was read last, and queues of brokers that are away."""
    away: Annotated[list[AwayBroker], Meta(max_length=256), listed_by("broker")] = []
    """Brokers whose queues keep their owners for ten minutes, as they are expected back."""
    read_queues: Count = 0
    """Readable queues on all brokers."""
    write_queues: Count = 0
    """Writable queues on all brokers."""
    route_hash: str = ""
    """Changes when the route does."""
    claims: Annotated[list[TellerName], Meta(max_length=16)] = []
    """Name servers at which no other object may provision the topic while this one does."""
    conditions: Conditions = []
    """Ready, Provisioned, Conflicted."""
