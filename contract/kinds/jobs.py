"""A group's Spark job."""

import enum
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from contract.kinds.parts import Duration, KeyRef, LocalRef, Moment, ObjectName, Part, Rule, Text

Quantity = Annotated[str, Meta(max_length=16, pattern="^[0-9]+(\\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi)?$")]
Path = Annotated[str, Meta(min_length=1, max_length=2048)]
MOST_EXECUTORS = 1000


class Mode(enum.Enum):
    STREAMING = "Streaming"
    SCHEDULED = "Scheduled"


class StartFrom(enum.Enum):
    GROUP = "Group"
    EARLIEST = "Earliest"
    LATEST = "Latest"
    TIMESTAMP = "Timestamp"


class Schedule(Part, frozen=True):
    cron: Annotated[str, Meta(min_length=9, max_length=128)]
    """When a run starts, in five fields: */10 * * * *."""
    time_zone: Text = "UTC"
    """Where the clock hangs: Europe/Berlin."""
    deadline: Duration | None = None
    """A start that was missed for longer is left out."""


class Transform(Part, frozen=True):
    RULES: ClassVar = (Rule("has(self.sql) != has(self.configMapRef)", "give sql or configMapRef"),)

    sql: Annotated[str, Meta(min_length=1, max_length=65536)] | None = None
    """A query over the table messages."""
    config_map_ref: KeyRef | None = None
    """A Python file with transform(df)."""


class Sink(Part, frozen=True):
    RULES: ClassVar = (
        Rule("has(self.format) != has(self.configMapRef)", "give format or configMapRef"),
        Rule("!has(self.optionsFrom) || has(self.format)", "optionsFrom belongs to format"),
    )

    format: Text | None = None
    """A format of Spark's, or rocketmq."""
    path: Path | None = None
    """Where files go."""
    options: Annotated[dict[str, str], Meta(max_length=128)] = {}
    """Options of the format."""
    options_from: LocalRef | None = None
    """A Secret of the same namespace: each of its keys is an option more, and wins."""
    config_map_ref: KeyRef | None = None
    """A Python file with write(df, query_id, batch_id)."""


class Checkpoint(Part, frozen=True):
    RULES: ClassVar = (
        Rule(
            "has(self.persistentVolumeClaim) != has(self.url)",
            "give persistentVolumeClaim or url",
        ),
    )

    persistent_volume_claim: ObjectName | None = None
    """A claim of the same namespace."""
    url: Path | None = None
    """A place that driver and executors reach: s3a://bucket/billing."""


class PodTemplate(Part, frozen=True):
    """Checked by the API server only when a pod is made."""

    metadata: dict[str, Any] = {}
    """Labels and annotations of the pods."""
    spec: dict[str, Any] = {}
    """A pod's spec; what the job needs is added to it. It may not name a service account."""


class Process(Part, frozen=True):
    cores: Annotated[int, Meta(ge=1, le=256)] = 1
    """CPU cores."""
    memory: Quantity = "1Gi"
    """Memory of the container."""
    pod_template: PodTemplate | None = None
    """What the pods have besides."""


class DriverProcess(Process, frozen=True):
    memory: Quantity = "1500Mi"
    """Memory of the container; the driver has a Java and two Pythons."""


class Job(Part, frozen=True):
    RULES: ClassVar = (
        Rule(
            "(self.mode == 'Scheduled') == has(self.schedule)",
            "schedule belongs to mode: Scheduled, which needs it",
        ),
        Rule(
            "(self.startFrom == 'Timestamp') == has(self.startTimestamp)",
            "startTimestamp belongs to startFrom: Timestamp, which needs it",
        ),
    )

    sink: Sink
    """Where rows go."""
    checkpoint: Checkpoint
    """Where Spark keeps offsets; it must outlive the pods."""
    image: Path | None = None
    """Image of driver and executors. Default: the operator's."""
    executors: Annotated[int, Meta(ge=0, le=MOST_EXECUTORS)] = 1
    """How many slots there are."""
    mode: Mode = Mode.STREAMING
    """Whether it runs on and on, or by the clock."""
    schedule: Schedule | None = None
    """When it runs."""
    trigger: Duration = "1s"
    """A batch begins so often."""
    start_from: StartFrom = StartFrom.GROUP
    """Where the group begins in its first run."""
    start_timestamp: Moment | None = None
    """Time of the first message to read, in RFC 3339."""
    max_messages_per_batch: Annotated[int, Meta(ge=1)] | None = None
    """Most messages of one batch."""
    fetch_deadline: Duration = "60s"
    """How long a task waits for a broker that is away."""
    fetch_memory: Quantity | None = None
    """What one task holds of pulled messages. Default: a 16th of an executor's memory, by cores."""
    fail_on_data_loss: bool = True
    """Stop when messages are gone that were not read."""
    allow_foreign_consumers: bool = False
    """Run though clients that are not Evenkeel's read in the group's name."""
    transform: Transform | None = None
    """What happens to rows. Default: nothing."""
    dead_letter: Sink | None = None
    """Where rows go whose column _error the transform has set."""
    driver: DriverProcess = DriverProcess()
    """The driver's pod."""
    executor: Process = Process()
    """The executors' pods."""
    spark_conf: Annotated[dict[str, str], Meta(max_length=256)] = {}
    """Spark's own settings."""
