"""`ConsumerGroup`: who shall read which topics, by which strategy, and who does."""

import enum
from typing import Annotated, ClassVar

from msgspec import Meta

from contract.kinds.jobs import Job
from contract.kinds.parts import (
    Conditions,
    Count,
    CountOrPercent,
    Duration,
    Ids,
    MqName,
    ObjectName,
    Part,
    Percent,
    Rule,
    TellerName,
    Text,
    listed_by,
    once,
    only_with,
)

MOST_OWNED = 4096
"""Entries in which one consumer's queues stand."""
MOST_ASSIGNED = 1000
"""Consumers that stand in a status itself."""


class MessageModel(enum.Enum):
    CLUSTERING = "Clustering"
    BROADCASTING = "Broadcasting"


class StrategyName(enum.Enum):
    STICKY = "Sticky"
    AVERAGELY = "Averagely"
    AVERAGELY_BY_CIRCLE = "AveragelyByCircle"
    CONSISTENT_HASH = "ConsistentHash"
    MACHINE_ROOM = "MachineRoom"
    MACHINE_ROOM_NEARBY = "MachineRoomNearby"
    CONFIG = "Config"


class Zones(enum.Enum):
    IGNORE = "Ignore"
    PREFER = "Prefer"
    REQUIRE = "Require"


class Weights(enum.Enum):
    NONE = "None"
    RATE = "Rate"


class MessageFilter(Part, frozen=True):
    RULES: ClassVar = (Rule("has(self.tags) != has(self.sql)", "give either tags or sql"),)

    tags: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    """Tags to read: paid || refunded."""
    sql: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    """An SQL92 condition on properties; the brokers must allow it."""


class TopicRef(Part, frozen=True):
    name: ObjectName
    """Name of a Topic in the same namespace."""
    filter: MessageFilter | None = None
    """Which of its messages to read. Default: all."""


class Sticky(Part, frozen=True):
    zones: Zones = Zones.PREFER
    """Whether a queue goes to a consumer of its broker's zone."""
    weights: Weights = Weights.NONE
    """What a queue counts: one each, or the measured rate of its messages."""
    min_gain: Percent = "10%"
    """With weights: how much lower the highest load must become for queues to move."""
    max_moves: CountOrPercent | None = None
    """How many queues one rebalance may move for balance alone. Default: no limit."""


class ConsistentHash(Part, frozen=True):
    virtual_nodes: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Points of each consumer on the ring; those of all consumers may be 100,000."""


class MachineRoom(Part, frozen=True):
    rooms: Annotated[list[Text], Meta(min_length=1, max_length=64)]
    """Rooms whose brokers are read."""


class InnerStrategy(enum.Enum):
    AVERAGELY = "Averagely"
    AVERAGELY_BY_CIRCLE = "AveragelyByCircle"
    CONSISTENT_HASH = "ConsistentHash"


class MachineRoomNearby(Part, frozen=True):
    inner: InnerStrategy = InnerStrategy.AVERAGELY
    """How queues are dealt within a room."""


class OwnedQueues(Part, frozen=True):
    topic: Text
    """RocketMQ's name of the topic."""
    broker: Text
    """Name of a broker group."""
    ids: Ids
    """Queue ids as ranges: 0-3,8."""


class Config(Part, frozen=True):
    queues: Annotated[
        dict[str, Annotated[list[OwnedQueues], Meta(max_length=1024)]], Meta(max_length=256)
    ]
    """By consumer, the queues that it reads."""


class Strategy(Part, frozen=True):
    RULES: ClassVar = (
        only_with("sticky", "name", "Sticky"),
        only_with("consistentHash", "name", "ConsistentHash"),
        only_with("machineRoom", "name", "MachineRoom"),
        only_with("machineRoomNearby", "name", "MachineRoomNearby"),
        only_with("config", "name", "Config"),
        Rule(
            "self.name != 'MachineRoom' || has(self.machineRoom)", "MachineRoom needs machineRoom"
        ),
        Rule("self.name != 'Config' || has(self.config)", "Config needs config"),
    )

    name: StrategyName = StrategyName.STICKY
    """How queues are shared out. Sticky moves the fewest; the others are RocketMQ's."""
    sticky: Sticky | None = None
    """Settings of Sticky."""
    consistent_hash: ConsistentHash | None = None
    """Settings of ConsistentHash."""
    machine_room: MachineRoom | None = None
    """Settings of MachineRoom."""
    machine_room_nearby: MachineRoomNearby | None = None
    """Settings of MachineRoomNearby."""
    config: Config | None = None
    """Settings of Config."""
    pinned_consumers: Annotated[list[Text], Meta(max_length=1000)] = []
    """Only these consume, if there are any. Works with every strategy."""


class Rebalance(Part, frozen=True):
    interval: Duration = "20s"
    """How often everything is looked at again, even if nothing was seen to change."""
    debounce: Duration = "300ms"
    """How long changes are gathered after the first; 2 s at most."""
    grace: Duration = "60s"
    """How long a slot may stay empty before its queues move."""
    paused: bool = False
    """Plan no more moves; what nobody owns still gets an owner."""


class StaticConsumer(Part, frozen=True):
    id: Text
    """Name of the consumer."""
    zone: Text | None = None
    """Zone that it stands in."""
    capacity: Annotated[int, Meta(ge=0, le=1000)] = 1
    """How much it takes, next to the others; 0 takes nothing."""


class PodSelector(Part, frozen=True):
    match_labels: Annotated[dict[str, str], Meta(min_length=1, max_length=32)]
    """Labels that the pods have."""


class Consumers(Part, frozen=True):
    RULES: ClassVar = (
        Rule("has(self.podSelector) != has(self.static)", "give either podSelector or static"),
    )

    pod_selector: PodSelector | None = None
    """Pods of the namespace, each one consumer."""
    static: Annotated[list[StaticConsumer], Meta(max_length=1000), listed_by("id")] | None = None
    """A list of consumers."""


class GroupSpec(Part, frozen=True):
    RULES: ClassVar = (
        once("group"),
        Rule("has(self.job) != has(self.consumers)", "give either job or consumers"),
        Rule(
            "!has(self.job) || self.messageModel == 'Clustering'",
            "Broadcasting is for groups without a job",
        ),
    )

    topics: Annotated[list[TopicRef], Meta(min_length=1, max_length=64), listed_by("name")]
    """Topics of the same namespace, all on one cluster, with 100,000 queues at most in all."""
    group: MqName | None = None
    """RocketMQ's name of the group. Default: the object's name."""
    message_model: MessageModel = MessageModel.CLUSTERING
    """Whether consumers share the queues, or each reads all of them."""
    strategy: Strategy = Strategy()
    """How queues are shared out."""
    rebalance: Rebalance = Rebalance()
    """When queues move."""
    consumers: Consumers | None = None
    """Who consumes, where no job does: the assignment is published, and others follow it."""
    job: Job | None = None
    """A Spark job that consumes."""
    suspend: bool = False
    """End the job after the batch that runs, and start it no more."""


class Assigned(Part, frozen=True):
    IS_FILLED: ClassVar = False  # there are many of them in a status, and each write pays for all

    consumer: Text
    """The slot, the pod, or the entry of the list."""
    executor: str = ""
    """Spark's id of the executor that fills the slot, or filled it last."""
    pod: str = ""
    """The executor's pod."""
    zone: str = ""
    """Where it runs."""
    empty_since: str = ""
    """Since when nobody fills the slot."""
    draining: bool = False
    """Whether it is to be emptied; a slot is then taken away."""
    queues: Annotated[list[OwnedQueues], Meta(max_length=MOST_OWNED)] = []
    """What it reads. Long lists of ids stand in several entries of one topic and broker."""


class LastRebalance(Part, frozen=True):
    at: Text
    """When."""
    trigger: Text
    """Why then: a consumer came or went, a route or the spec changed, time passed, or Asked."""
    moved: Count
    """How many queues changed their owner."""
    reason: Annotated[str, Meta(max_length=4096)]
    """Which moved from whom to whom, and why."""


class TopicClaim(Part, frozen=True):
    name: ObjectName
    """Name of the Topic."""
    topic: MqName
    """RocketMQ's name of it."""
    told_by: Annotated[list[TellerName], Meta(max_length=16)]
    """Its name servers, or the Topic itself where that says the route."""


class LastSkip(Part, frozen=True):
    at: Text
    """When the job was seen to have done so."""
    value: str
    """Value of the annotation evenkeel.dev/skip that asked for it."""
    messages: Annotated[int, Meta(ge=0)]
    """How many messages were passed over."""
    lost: Annotated[str, Meta(max_length=4096)] = ""
    """Which, queue by queue."""


class JobRecord(Part, frozen=True):
    ended_at: str = ""
    """When the driver ended last."""
    exit_code: int = 0
    """How: 0 done, 75 try again, 78 somebody must change something."""
    failures: Count = 0
    """How often in a row it has failed; the pauses between its starts grow with it."""
    identity: str = ""
    """What it was started as: a hash that changes with what needs a restart."""
    message: Annotated[str, Meta(max_length=4096)] = ""
    """What it said last."""
    run_at: str = ""
    """With a schedule: the start that the run belongs to that is on."""
    last_run_at: str = ""
    """With a schedule: the start that the last run belongs to that is done."""
    image: str = ""
    """What the driver runs; after an upgrade of the chart jobs get its image a few at a time."""


class GroupStatus(Part, frozen=True):
    RULES: ClassVar = (
        Rule(
            "!has(oldSelf.epoch) || (has(self.epoch) && self.epoch >= oldSelf.epoch)",
            "epoch never goes back",
        ),
    )

    observed_generation: int = 0
    """Generation of the spec that this follows from."""
    epoch: int = 0
    """Number of the assignment; it only grows."""
    adopted_epoch: int = 0
    """Number of the assignment that the job follows."""
    queues: Count = 0
    """Queues of all topics."""
    consumers: Count = 0
    """Consumers that may own queues."""
    executors: Count = 0
    """Slots that the job has now."""
    selector: str = ""
    """Labels of the job's executors, for autoscalers."""
    moved: int = 0
    """Queues that changed their owner in all rebalances."""
    last_rebalance: LastRebalance | None = None
    """The last one that moved something."""
    rebalanced_for: str = ""
    """Value of the annotation evenkeel.dev/rebalance that was followed last."""
    imbalance: str = ""
    """Highest load next to the mean: 1.00 is even."""
    best_imbalance: str = ""
    """The same, at best, for so many queues and consumers."""
    lag: int | None = None
    """Messages behind, about; not said where no broker tells."""
    assignments: Annotated[list[Assigned], Meta(max_length=MOST_ASSIGNED)] = []
    """Who reads what."""
    job: JobRecord | None = None
    """How the job's driver has ended, for the next start depends on it."""
    last_skip: LastSkip | None = None
    """What the job has passed over as asked, when messages were gone for good."""
    claims: Annotated[list[TopicClaim], Meta(max_length=64), listed_by("name")] = []
    """Topics that no other group of the same RocketMQ name may read while this one names them."""
    slices: Annotated[list[ObjectName], Meta(max_length=64)] = []
    """ConfigMaps that hold the assignments, where they are too long to stand here."""
    conditions: Conditions = []
    """Ready, Assigned, Balanced, JobRunning, Pinned, Advisory, Paused, Drained, Conflicted."""
