"""`ConsumerGroup`: which consumers read which topics, and the strategy that assigns the queues."""

import enum
from typing import Annotated, ClassVar

from msgspec import Meta, field

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
    key_by,
    make_immutable,
    require_with,
)

MOST_OWNED = 4096
"""Maximum number of entries for the queues of one consumer."""
MOST_ASSIGNED = 1000
"""Maximum number of consumers whose assignments the status itself contains."""
MOST_MOVES, MOST_MOVED_ENTRIES = 128, 128
"""Maximum number of moves of the last rebalance, and of entries for the queues of one move."""


class MessageModel(enum.Enum):
    CLUSTERING = "Clustering"
    BROADCASTING = "Broadcasting"


class Balance(enum.Enum):
    QUEUES = "Queues"
    MESSAGES = "Messages"


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
    RULES: ClassVar = (Rule("has(self.tags) != has(self.sql)", "set either tags or sql"),)

    tags: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    """Tags to read, such as paid || refunded."""
    sql: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    """SQL92 condition on properties. The brokers must allow such filters."""


class TopicRef(Part, frozen=True):
    name: ObjectName
    """Name of a Topic in the same namespace."""
    filter: MessageFilter | None = None
    """Which messages of the topic to read. Default: all."""


class Sticky(Part, frozen=True):
    zones: Zones = Zones.PREFER
    """Whether queues are assigned to consumers in the zone of their broker."""
    weights: Weights = Weights.NONE
    """Load of a queue: None counts each queue as one, Rate uses its measured message rate."""
    min_gain: Percent = "10%"
    """With weights: queues move only if the moves lower the highest load by at least this share."""
    max_moves: CountOrPercent | None = None
    """Maximum number of queues that one rebalance may move for balance alone. Default: no limit."""


class ConsistentHash(Part, frozen=True):
    virtual_nodes: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Points of each consumer on the ring. All consumers together may have 100,000 points."""


class MachineRoom(Part, frozen=True):
    rooms: Annotated[list[Text], Meta(min_length=1, max_length=64)]
    """Machine rooms. Only queues of their brokers are read."""


class InnerStrategy(enum.Enum):
    AVERAGELY = "Averagely"
    AVERAGELY_BY_CIRCLE = "AveragelyByCircle"
    CONSISTENT_HASH = "ConsistentHash"


class MachineRoomNearby(Part, frozen=True):
    inner: InnerStrategy = InnerStrategy.AVERAGELY
    """Strategy that assigns queues within a room."""


class OwnedQueues(Part, frozen=True):
    topic: Text
    """RocketMQ's name of the topic."""
    broker: Text
    """Name of a broker group."""
    ids: Ids
    """Queue ids as ranges, such as 0-3,8."""


class Config(Part, frozen=True):
    queues: Annotated[
        dict[str, Annotated[list[OwnedQueues], Meta(max_length=1024)]], Meta(max_length=256)
    ]
    """Queues of each consumer, by its id."""


class StrategyChoice(Part, frozen=True):
    RULES: ClassVar = (
        require_with("sticky", "name", "Sticky"),
        require_with("consistentHash", "name", "ConsistentHash"),
        require_with("machineRoom", "name", "MachineRoom"),
        require_with("machineRoomNearby", "name", "MachineRoomNearby"),
        require_with("config", "name", "Config"),
        Rule(
            "self.name != 'MachineRoom' || has(self.machineRoom)", "MachineRoom needs machineRoom"
        ),
        Rule("self.name != 'Config' || has(self.config)", "Config needs config"),
    )

    name: StrategyName = StrategyName.STICKY
    """Strategy that assigns queues. Sticky moves the fewest; the others are RocketMQ's."""
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
    """If not empty, only these consumers get queues. Works with every strategy."""


class Rebalance(Part, frozen=True):
    interval: Duration = "20s"
    """How often the group is reconciled even if nothing has changed."""
    debounce: Duration = "300ms"
    """
    How long changes are collected after the first one before the group is planned. At most 2s.
    """
    grace: Duration = "60s"
    """
    How long a slot keeps its queues while no executor fills it, or while its member has no session.
    """
    paused: bool = False
    """Plan no further moves. Queues without an owner still get an owner."""


class StaticConsumer(Part, frozen=True):
    id: Text
    """Id of the consumer."""
    zone: Text | None = None
    """Zone of the consumer."""
    capacity: Annotated[int, Meta(ge=0, le=1000)] = 1
    """Share of the load relative to other consumers. With 0 the consumer gets no queues."""


class PodSelector(Part, frozen=True):
    match_labels: Annotated[dict[str, str], Meta(min_length=1, max_length=32)]
    """Labels that a pod must have."""


class OnOutage(enum.Enum):
    STOP = "Stop"
    KEEP_READING = "KeepReading"


class MemberTerms(Part, frozen=True):
    selector: PodSelector | None = None
    """Pods of the namespace that may be members. Needed in a cluster."""
    session: Duration = "10s"
    """How long a member counts as alive after its last request. At least 1s."""
    drain: Duration = "30s"
    """How long a member may take to finish a queue that it must release."""
    on_outage: OnOutage = OnOutage.STOP
    """What members do while no coordinator answers: Stop reading, or KeepReading their queues."""


class Consumers(Part, frozen=True):
    RULES: ClassVar = (
        Rule(
            "[has(self.podSelector), has(self.static), has(self.members)].filter(x, x).size() == 1",
            "set one of podSelector, static and members",
        ),
    )

    pod_selector: PodSelector | None = None
    """Pods of the namespace. Each pod is a consumer."""
    static: Annotated[list[StaticConsumer], Meta(max_length=1000), key_by("id")] | None = None
    """A fixed list of consumers."""
    members: MemberTerms | None = None
    """Programs that ask a coordinator which queues they may read."""


MOST_POPPED = 32
"""A broker gives at most this number of messages to a pop."""


class MessageSettings(Part, frozen=True):
    invisible_time: Duration = "60s"
    """
    How long nobody else gets a message that a member, or an executor of the job, has popped. It
    renews this time while it works. At least 10s.
    """
    batch: Annotated[int, Meta(ge=1, le=MOST_POPPED)] | None = None
    """Maximum number of messages that a handler gets in one call. Default: 1; for a job, 32."""
    max_attempts: Annotated[int, Meta(ge=1, le=1000)] = 16
    """
    After this number of deliveries, a message goes to the dead letters. With `ordered`, after this
    number of calls of the handler, the member's option `--on-failure` decides.
    """
    backoff: Duration = "10s"
    """
    Time after which a message comes again if its handler has failed, or with `ordered`, after which
    the handler is called again. Each failure doubles it, up to 2h.
    """
    ordered: bool = False
    """
    Keep the order within each queue: each queue has one member that pops its messages, and the
    broker gives the next ones only when these are acknowledged. So a slow message delays its queue.
    """


class GroupSpec(Part, frozen=True):
    RULES: ClassVar = (
        make_immutable("group"),
        Rule(
            "self.balance == oldSelf.balance || (has(self.consumers) && has(self.consumers.members)"
            " && has(oldSelf.consumers) && has(oldSelf.consumers.members))",
            "balance can change only while the group has consumers.members, before and after",
        ),
        Rule(
            "self.balance == 'Queues' || has(self.job)"
            " || (has(self.consumers) && has(self.consumers.members))",
            "balance Messages needs consumers.members or a job",
        ),
        Rule(
            "!has(self.messages) || has(self.job)"
            " || (has(self.consumers) && has(self.consumers.members))",
            "messages needs consumers.members or a job",
        ),
        Rule(
            "self.balance == 'Queues' || !has(self.job)"
            " || (self.job.mode == 'Streaming' && self.job.startFrom in ['Group', 'Earliest']"
            " && (!has(self.job.engine) || self.job.engine == 'Flow')"
            " && (!has(self.messages) || !self.messages.ordered))",
            "a job with balance Messages needs mode Streaming, engine Flow and startFrom Group or"
            " Earliest, and cannot have messages.ordered",
        ),
        Rule("has(self.job) != has(self.consumers)", "set either job or consumers"),
        Rule(
            "!has(self.job) || self.messageModel == 'Clustering'",
            "messageModel Broadcasting is only for groups without a job",
        ),
        Rule(
            "!has(self.consumers) || !has(self.consumers.members)"
            " || self.messageModel == 'Clustering'",
            "messageModel Broadcasting is only for groups without members",
        ),
    )

    topics: Annotated[list[TopicRef], Meta(min_length=1, max_length=64), key_by("name")]
    """Topics of the same namespace and RocketMQ cluster, with at most 100,000 queues in total."""
    group: MqName | None = None
    """Name of the group in RocketMQ. Default: the object's name."""
    message_model: MessageModel = MessageModel.CLUSTERING
    """Clustering: consumers share the queues. Broadcasting: each consumer reads all of them."""
    balance: Balance = Balance.QUEUES
    """
    Queues: each queue has one consumer, and order within a queue is kept. Messages: any member gets
    any message, without an order, so a slow message delays no other one; `messages.ordered` keeps
    the order. After a change of either, nobody reads until all members have stopped reading in the
    old way.
    """
    messages: MessageSettings | None = None
    """
    Settings of balance Messages. After a change to Queues, they apply to messages that come again.
    """
    strategy: StrategyChoice = StrategyChoice()
    """How queues are assigned to consumers."""
    rebalance: Rebalance = Rebalance()
    """When queues move."""
    consumers: Consumers | None = None
    """
    Consumers of a group without a job. Consumers of `podSelector` and `static` must follow the
    assignment by themselves. A coordinator tells `members` which queues they may read.
    """
    job: Job | None = None
    """Spark job that reads the queues."""
    suspend: bool = False
    """Stop the job after the current batch, and do not start it again."""


class Assigned(Part, frozen=True):
    IS_FILLED: ClassVar = False  # defaults would make a status with many consumers long

    consumer: Text
    """Slot, pod, or entry of the static list."""
    executor: str = ""
    """Spark's id of the executor that fills the slot or filled it last."""
    pod: str = ""
    """Pod of the executor."""
    zone: str = ""
    """Zone of the consumer."""
    empty_since: str = ""
    """Time since which no executor has filled the slot."""
    draining: bool = False
    """Whether the consumer is losing all its queues. A drained slot is removed."""
    queues: Annotated[list[OwnedQueues], Meta(max_length=MOST_OWNED)] = []
    """Queues that the consumer reads. Long lists of ids are split into several entries."""


class QueueMove(Part, frozen=True):
    IS_FILLED: ClassVar = False  # defaults would make a status with many moves long

    source: Text = field(name="from")
    """Consumer that owned the queues."""
    reason: Annotated[str, Meta(max_length=32)]
    """
    Reason of the move: joined, left, replaced, balance, zone, draining and so on, or strategy.
    """
    target: Annotated[str, Meta(max_length=253)] = field(name="to", default="")
    """Consumer that owns the queues now. Missing: no consumer."""
    strategy: Annotated[str, Meta(max_length=253)] = ""
    """With the reason strategy: name of the strategy."""
    queues: Annotated[list[OwnedQueues], Meta(max_length=MOST_MOVED_ENTRIES)] = []
    """Queues that moved."""


class LastRebalance(Part, frozen=True):
    at: Text
    """Time of the rebalance."""
    trigger: Text
    """
    Cause of the rebalance: a change of consumers, route or spec, the interval, or a manual request.
    """
    moved: Count
    """Number of queues that changed their owner."""
    reason: Annotated[str, Meta(max_length=4096)]
    """Description of the moves: old owner, new owner, reason and queues."""
    epoch: int = 0
    """Number of the assignment that resulted."""
    moves: Annotated[list[QueueMove], Meta(max_length=MOST_MOVES)] = []
    """Moves with their old owners, new owners and reasons, up to 16 KiB."""
    left_out: Count = 0
    """Number of moved queues that are not listed in `moves`."""


class TopicClaim(Part, frozen=True):
    name: ObjectName
    """Name of the Topic."""
    topic: MqName
    """Name of the topic in RocketMQ."""
    told_by: Annotated[list[TellerName], Meta(max_length=16)]
    """Name servers of the topic, or the Topic itself if its spec contains the route."""


class LastSkip(Part, frozen=True):
    at: Text
    """Time when the operator saw that the job had skipped messages."""
    value: str
    """Value of the annotation evenkeel.dev/skip that requested it."""
    messages: Annotated[int, Meta(ge=0)]
    """Number of messages skipped."""
    lost: Annotated[str, Meta(max_length=4096)] = ""
    """Which messages, per queue."""


class WaitingSum(Part, frozen=True):
    ready: int = 0
    """Number of messages that no consumer has got yet."""
    retries: int = 0
    """Number of messages that come again, and that no consumer has got again yet."""
    parked: int = 0
    """Number of pops that wait for a message."""
    oldest: str = ""
    """Time when the oldest of these messages was stored; empty if none waits."""


class PopStore(enum.Enum):
    FILES = "Files"
    ROCKSDB = "RocksDB"


class BrokerStore(Part, frozen=True):
    broker: Text
    """Name of a broker group."""
    store: PopStore
    """Where it keeps the messages that are popped and not acknowledged."""


class JobRecord(Part, frozen=True):
    ended_at: str = ""
    """Time when the last driver ended."""
    exit_code: int = 0
    """Exit code of the last driver. 0: done, 75: a retry follows, 78: a user must act."""
    failures: Count = 0
    """Number of consecutive failures. The delay before the next start grows with it."""
    identity: str = ""
    """Fingerprint of the driver; a change restarts it."""
    message: Annotated[str, Meta(max_length=4096)] = ""
    """Last message of the driver."""
    run_at: str = ""
    """With a schedule: scheduled start of the current run."""
    last_run_at: str = ""
    """With a schedule: scheduled start of the last completed run."""
    image: str = ""
    """
    Image of the driver. After an upgrade of the chart, jobs restart with the new image, a few at a
    time.
    """


class GroupStatus(Part, frozen=True):
    RULES: ClassVar = (
        Rule(
            "!has(oldSelf.epoch) || (has(self.epoch) && self.epoch >= oldSelf.epoch)",
            "epoch must not decrease",
        ),
    )

    observed_generation: int = 0
    """Generation of the spec that this status belongs to."""
    epoch: int = 0
    """Number of the published assignment. It only grows."""
    adopted_epoch: int = 0
    """Number of the assignment that the job follows."""
    queues: Count = 0
    """Number of queues of all topics."""
    consumers: Count = 0
    """Number of consumers that may own queues."""
    executors: Count = 0
    """Number of slots of the job."""
    selector: str = ""
    """Label selector of the job's executors, for autoscalers."""
    moved: int = 0
    """How often queues have changed their owner since the group was created."""
    last_rebalance: LastRebalance | None = None
    """Last rebalance that moved queues."""
    rebalanced_for: str = ""
    """Last value of the annotation evenkeel.dev/rebalance that was handled."""
    imbalance: str = ""
    """Highest load divided by the mean load. 1.00 is even."""
    best_imbalance: str = ""
    """Best possible imbalance for these queues and consumers."""
    lag: int | None = None
    """
    Approximate number of messages not consumed yet. Missing if no broker reports it. With balance
    Messages, those that members hold do not count.
    """
    waiting: WaitingSum | None = None
    """With balance Messages without an order, or leftovers: what waits, approximately."""
    dead_letters: int | None = None
    """
    Number of messages in RocketMQ's topic for the group's dead letters, at all brokers. For a group
    without a job, or with balance Messages.
    """
    stores: Annotated[list[BrokerStore], Meta(max_length=256), key_by("broker")] = []
    """With balance Messages: where each broker keeps popped messages."""
    balance: Balance = Balance.QUEUES
    """How members may read now. It follows spec.balance when nobody reads in the old way."""
    ordered: bool = False
    """Whether members pop each queue in its order. It follows spec.messages.ordered likewise."""
    leftovers: bool = False
    """
    Whether messages that were popped without an order before a change may come again. Members pop
    these.
    """
    assignments: Annotated[list[Assigned], Meta(max_length=MOST_ASSIGNED)] = []
    """Queues of each consumer."""
    job: JobRecord | None = None
    """How the job's last driver ended. The next start depends on it."""
    last_skip: LastSkip | None = None
    """Messages that the job skipped on request because they were lost."""
    session: str = ""
    """Session time that members may count on. It follows the spec once older sessions are over."""
    claims: Annotated[list[TopicClaim], Meta(max_length=64), key_by("name")] = []
    """
    Topics that this object reserves: no other object of the same RocketMQ group may read them.
    """
    slices: Annotated[list[ObjectName], Meta(max_length=64)] = []
    """ConfigMaps that hold the assignments if these are too long for the status."""
    conditions: Conditions = []
    """Ready, Assigned, Balanced, JobRunning, Pinned, Followed, Paused, Drained, and others."""
