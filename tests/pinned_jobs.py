"""Builds pinned jobs: their files, their states, and what plans their batches."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import msgspec

from contract import job_file
from contract.job_file import JobFile
from mq_client.errors import MqError
from mq_client.values import MessageQueue, Offsets
from spark_jobs import journal, options
from spark_jobs.options import QueueEdge, StartOrEnd
from spark_jobs.pipeline.batch.lanes import LaneDealer
from spark_jobs.pipeline.batch.planning import BatchPlanner
from spark_jobs.pipeline.checkpoint import plans
from spark_jobs.pipeline.checkpoint.begins import QueueBegins
from spark_jobs.pipeline.checkpoint.journal import CheckpointState
from spark_jobs.pipeline.checkpoint.plans import BatchPlan
from spark_jobs.planning import SeenOffsets

A, B, C, D = (MessageQueue("orders", "broker-a", number) for number in range(4))


def make_begins(start: str, stands: dict[MessageQueue, int]) -> QueueBegins:
    """Make begins whose broker has two queues; the group has committed offsets in some."""
    given = {"nameServers": "mq:9876", "topics": "orders", "group": "g", "startFrom": start}
    begins = QueueBegins(options.parse_reading(given, is_stream=True))
    begins._observer = Held(stands)  # type: ignore[assignment]  # it uses no more
    return begins


def make_planner(
    begins: QueueBegins,
    skip: str = "",
    epoch: int = 0,
    owners: Mapping[MessageQueue, str] = MappingProxyType({}),
    lanes: int = 1,
    *,
    is_scheduled: bool = False,
) -> BatchPlanner:
    """Make a planner whose newest assignment has this epoch, and these owners of queues."""
    followed: Any = SimpleNamespace(newest=SimpleNamespace(epoch=epoch, owners=owners))
    dealer = LaneDealer(lanes)
    return BatchPlanner(begins, begins._reading, skip, followed, dealer, is_scheduled=is_scheduled)


def plan_batch(state: CheckpointState, begins: QueueBegins, skip: str = "") -> CheckpointState:
    """Return the state in which the next batch is planned; the same state if nothing is new."""
    return make_planner(begins, skip).plan(state, {0})[0]


def read_plan(state: CheckpointState) -> BatchPlan:
    """Read the only planned batch of a state."""
    (batch,) = state.planned
    return BatchPlan(state.query, state.skip, batch, 0.0)


def commit(state: CheckpointState) -> CheckpointState:
    """Commit the only planned batch of a state."""
    return plans.commit(state, read_plan(state).planned)


def make_state(
    ends: dict[MessageQueue, int], aside: dict[MessageQueue, int] | None = None, **more: Any
) -> CheckpointState:
    """Make the state of a job that has committed these offsets."""
    offsets = journal.write_offsets(ends)
    parts = {"query": "q", "group": "g", "epoch": 1, "batch": 4, **more}
    return CheckpointState(offsets=offsets, aside=journal.write_offsets(aside or {}), **parts)


@dataclass
class Held:
    """Brokers with these queues, and the group's committed offsets. Those in `silent` are away."""

    committed: dict[MessageQueue, int]
    queues: dict[MessageQueue, Offsets] = field(
        default_factory=lambda: {A: Offsets(2, 10, 0), B: Offsets(3, 20, 0)}
    )
    silent: dict[str, MqError] = field(default_factory=dict)

    def observe(self, start: object = None, *, is_new: bool) -> SeenOffsets:
        found = {queue: at for queue, at in self.queues.items() if queue.broker not in self.silent}
        answered = frozenset((queue.topic, queue.broker) for queue in found)
        return SeenOffsets(found, answered, dict(self.silent))

    def find_offsets(self, place: StartOrEnd, seen: SeenOffsets) -> dict[MessageQueue, int]:
        is_end = place.edge is QueueEdge.LATEST
        return {queue: ends.max if is_end else ends.min for queue, ends in seen.queues.items()}

    def read_committed(self, seen: SeenOffsets) -> dict[MessageQueue, int]:
        return {queue: at for queue, at in self.committed.items() if queue in seen.queues}


def described(tmp_path: Path, **changes: Any) -> Path:
    """Write a job's file."""
    path = tmp_path / "job.json"
    parts = {
        "name": "billing",
        "source": {"nameServers": "localhost:9876", "topics": "orders", "group": "billing"},
        "assignments": str(tmp_path / "assignment.json"),
        "report": str(tmp_path / "report.json"),
        "checkpoint": str(tmp_path / "checkpoint"),
        "sink": {"format": "noop"},
    }
    path.write_text(json.dumps({**parts, **changes}))
    return path


def make_job_file(**changed: Any) -> JobFile:
    """Make a job file with these fields changed. Their values are as in JSON."""
    parts = {
        "name": "billing",
        "source": {},
        "assignments": "a",
        "report": "r",
        "checkpoint": "c",
        "sink": {"format": "json", "path": "/rows"},
        **changed,
    }
    return job_file.decode(msgspec.json.encode(parts))
