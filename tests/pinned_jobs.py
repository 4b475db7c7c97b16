"""Builds pinned jobs: their files, and the source that plans their batches."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from contract import job_file
from contract.job_file import JobFile
from mq_client.values import MessageQueue, Offsets
from spark_jobs import options
from spark_jobs.options import QueueEdge, StartOrEnd
from spark_jobs.pipeline import plan_source
from spark_jobs.planning import SeenOffsets

A, B, C, D = (MessageQueue("orders", "broker-a", number) for number in range(4))


class Planned(plan_source.PlanReader):
    """A source whose brokers have two queues. The group has committed offsets for some of them."""

    def __init__(
        self, run: Path, start: str, stands: dict[MessageQueue, int], skip: str = ""
    ) -> None:
        given = {"nameServers": "mq:9876", "topics": "orders", "group": "g", "startFrom": start}
        reading = options.parse_reading(given, is_stream=True)
        super().__init__(reading, str(run / "assignment.json"), str(run), skip)
        self._observer = Held(stands)  # type: ignore[assignment]  # it uses no more


@dataclass
class Held:
    committed: dict[MessageQueue, int]

    def observe(self, start: object, *, is_new: bool) -> SeenOffsets:
        queues = {A: Offsets(2, 10, 0), B: Offsets(3, 20, 0)}
        return SeenOffsets(queues, frozenset({("orders", "broker-a")}))

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
