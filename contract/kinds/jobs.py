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


class JobEngine(enum.Enum):
    BATCH = "Batch"
    FLOW = "Flow"


class StartFrom(enum.Enum):
    GROUP = "Group"
    EARLIEST = "Earliest"
    LATEST = "Latest"
    TIMESTAMP = "Timestamp"


class Schedule(Part, frozen=True):
    cron: Annotated[str, Meta(min_length=9, max_length=128)]
    """When runs start, as a cron expression with five fields, such as */10 * * * *."""
    time_zone: Text = "UTC"
    """Time zone of the schedule, such as Europe/Berlin."""
    deadline: Duration | None = None
    """A missed start that is older than this is skipped."""


class Transform(Part, frozen=True):
    RULES: ClassVar = (
        Rule(
            "[has(self.sql), has(self.duckdb), has(self.configMapRef)].exists_one(it, it)",
            "set only one of sql, duckdb and configMapRef",
        ),
    )

    sql: Annotated[str, Meta(min_length=1, max_length=65536)] | None = None
    """SQL query over the table messages, for batches."""
    duckdb: Annotated[str, Meta(min_length=1, max_length=65536)] | None = None
    """SQL query over the table messages in the dialect of DuckDB, for a flow."""
    config_map_ref: KeyRef | None = None
    """Python file that defines transform(df), or for a flow transform_batches(batches)."""


class Sink(Part, frozen=True):
    RULES: ClassVar = (
        Rule("has(self.format) != has(self.configMapRef)", "set either format or configMapRef"),
        Rule("!has(self.optionsFrom) || has(self.format)", "optionsFrom requires format"),
    )

    format: Text | None = None
    """Format of a Spark data source, rocketmq, or for a flow postgresql, delta or iceberg."""
    path: Path | None = None
    """Path that files are written to."""
    options: Annotated[dict[str, str], Meta(max_length=128)] = {}
    """Options of the format."""
    options_from: LocalRef | None = None
    """Secret of the same namespace. Each of its keys is a further option and overrides options."""
    config_map_ref: KeyRef | None = None
    """
    Python file that defines write(df, query_id, batch_id), or for a flow write_batches(batches,
    steps).
    """


class Checkpoint(Part, frozen=True):
    RULES: ClassVar = (
        Rule(
            "has(self.persistentVolumeClaim) != has(self.url)",
            "set either persistentVolumeClaim or url",
        ),
    )

    persistent_volume_claim: ObjectName | None = None
    """PersistentVolumeClaim of the same namespace."""
    url: Path | None = None
    """Location that driver and executors can reach, such as s3a://bucket/billing."""


class PodTemplate(Part, frozen=True):
    """A pod template. The API server validates it only when a pod is created."""

    metadata: dict[str, Any] = {}
    """Labels and annotations of the pods."""
    spec: dict[str, Any] = {}
    """Pod spec. The operator adds what the job needs. It must not set a service account."""


class Process(Part, frozen=True):
    cores: Annotated[int, Meta(ge=1, le=256)] = 1
    """CPU cores."""
    memory: Quantity = "1Gi"
    """Memory of the container."""
    pod_template: PodTemplate | None = None
    """Further settings of the pods."""


class DriverProcess(Process, frozen=True):
    memory: Quantity = "1500Mi"
    """Memory of the container. The driver runs a JVM and a Python process."""


class Job(Part, frozen=True):
    RULES: ClassVar = (
        Rule(
            "(self.mode == 'Scheduled') == has(self.schedule)",
            "schedule is required with mode Scheduled, and only allowed there",
        ),
        Rule(
            "(self.startFrom == 'Timestamp') == has(self.startTimestamp)",
            "startTimestamp is required with startFrom Timestamp, and only allowed there",
        ),
    )

    sink: Sink
    """Where rows are written."""
    checkpoint: Checkpoint
    """Where the job stores its offsets. It must outlive the pods."""
    image: Path | None = None
    """Image of driver and executors. Default: as configured for the operator."""
    executors: Annotated[int, Meta(ge=0, le=MOST_EXECUTORS)] = 1
    """Number of slots. Each slot is filled by one executor."""
    mode: Mode = Mode.STREAMING
    """Streaming: runs continuously. Scheduled: runs at the times of schedule."""
    schedule: Schedule | None = None
    """When a scheduled job runs."""
    engine: JobEngine | None = None
    """
    Batch: batches of all queues, one after another. Flow: each queue is read all the time, without
    batches, for a function on Arrow batches. Default: Flow for a job that it can run, otherwise
    Batch.
    """
    lanes: Annotated[int, Meta(ge=1, le=MOST_EXECUTORS)] | None = None
    """
    With batches: how many batches run at the same time, each for the queues of a part of the slots.
    So a slow batch does not delay the others. Default: 1.
    """
    trigger: Duration = "1s"
    """Interval at which batches start, or at which a flow commits rows."""
    start_from: StartFrom = StartFrom.GROUP
    """Where to start reading in the first run. Group: at the group's committed offsets."""
    start_timestamp: Moment | None = None
    """Time of the first message to read, in RFC 3339."""
    max_messages_per_batch: Annotated[int, Meta(ge=1)] | None = None
    """Maximum number of messages in one batch. Default: no limit."""
    fetch_deadline: Duration = "60s"
    """How long a task waits for a broker that does not answer."""
    fetch_memory: Quantity | None = None
    """Memory for pulled messages per task. Default: executor memory / 16 / cores."""
    fail_on_data_loss: bool = True
    """Stop the job if messages were lost before it read them."""
    allow_foreign_consumers: bool = False
    """Run even if clients that do not belong to Evenkeel read in the same group."""
    transform: Transform | None = None
    """How rows are transformed. By default they are not transformed."""
    dead_letter: Sink | None = None
    """Where to write rows for which the transform has set the column _error."""
    driver: DriverProcess = DriverProcess()
    """Settings of the driver's pod."""
    executor: Process = Process()
    """Settings of the executors' pods."""
    spark_conf: Annotated[dict[str, str], Meta(max_length=256)] = {}
    """Spark configuration properties."""
