"""Replaces parts of a flow in tests: a journal in memory, and a task that sends any message."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from contract.following import MemberRequest
from follower.queues import read_queues, write_queues
from mq_client.values import MessageQueue
from spark_jobs import journal as offsets
from spark_jobs.pipeline.checkpoint.journal import KEPT, CheckpointState, JobJournal
from spark_jobs.pipeline.checkpoint.stores import CheckpointStore
from spark_jobs.pipeline.flow import wire
from spark_jobs.planning import Range

SECRET = "secret"  # only for tests


class FakeJournal:
    """Keeps entries and files of a checkpoint in memory, and raises the errors in `failures`."""

    def __init__(
        self, entries: Iterable[CheckpointState] = (), files: Mapping[str, str] | None = None
    ) -> None:
        self.entries = list(entries)
        self.files = files or {}
        self.failures: list[Exception] = []
        self.gate = threading.Event()
        """While it is not set, entries are not written."""
        self.gate.set()

    def append(self, state: CheckpointState) -> None:
        self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.entries.append(state)

    @property
    def number(self) -> int:
        return len(self.entries) - 1

    def read_newest(self) -> CheckpointState | None:
        return self.entries[-1] if self.entries else None

    def list_numbers(self, folder: str) -> list[int]:
        found = (name.split("/") for name in self.files)
        return [int(name[1]) for name in found if name[0] == folder]

    def move(self, name: str, folder: str) -> None:
        self.files = {
            f"{folder}/{path}" if path.split("/")[0] == name else path: text
            for path, text in self.files.items()
        }

    def read(self, name: str) -> bytes:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name].encode()


def at(number: int) -> CheckpointState:
    """Return the state of a job with one queue, after this many commits of one message each."""
    return CheckpointState("q", "billing", 1, number, {"orders": {"broker-a": {"0": number}}})


def write_sparks_logs(
    group: str, committed: Mapping[MessageQueue, int],
    planned: Mapping[MessageQueue, int] | None = None, **changed: Any,
) -> dict[str, str]:  # fmt: skip
    """
    Make the files that a job of an earlier version wrote, with a committed batch 4.

    Batch 5 is planned if `planned` is given. Each epoch is the number of its batch.
    """
    files = {"metadata": '{"id":"q"}', "commits/4": "v1\n{}"}
    for number, ends in ((4, committed), (5, planned)):
        if ends is not None:
            entry = {
                "epoch": number, "group": group, "filter": {"expression": "*", "kind": "TAG"},
                "offsets": offsets.write_offsets(ends), **changed,
            }  # fmt: skip
            files[f"offsets/{number}"] = f'v1\n{{"conf":{{}}}}\n{json.dumps(entry)}'
    return files


def wake_up_after_others(store: CheckpointStore) -> JobJournal:
    """Return the journal of a frozen driver: others have written and deleted its next entry."""
    frozen, other = JobJournal(store), JobJournal(store)
    frozen.append(at(0))
    other.read_newest()
    for number in range(1, KEPT + 3):
        other.append(at(number))
    return frozen


class DiedError(BaseException):
    """The driver or the task has died. No `except Exception` catches this error."""


class DyingStage:
    """
    A flow whose driver or task dies one time, at a given step.

    The flow's server uses this object as its journal.
    """

    driver_steps: tuple[str, ...]
    """The steps before and after a write to the journal, then further steps of the driver."""

    def __init__(self, kept: FakeJournal, dies_at: str, commit: int) -> None:
        self.kept = kept
        self.dies_at = dies_at
        self.left = commit
        """How many more times the step is reached. The last time, the driver or the task dies."""
        self.task: Task | None = None
        """The running task; None while the first driver starts."""

    def pass_step(self, step: str) -> None:
        if step == self.dies_at and self.left:
            self.left -= 1
            if self.left == 0:
                if step in self.driver_steps and self.task is not None:
                    # When a process ends, its connections end too.
                    self.task.socket.shutdown(socket.SHUT_RDWR)
                raise DiedError(step)

    @property
    def number(self) -> int:
        return self.kept.number

    def append(self, state: CheckpointState) -> None:
        self.pass_step(self.driver_steps[0])
        self.kept.append(state)
        self.pass_step(self.driver_steps[1])


class Task:
    """A task that sends the messages that the test wants."""

    def __init__(self, port: int, slot: str, executor: str = "1", secret: str = SECRET) -> None:
        self.slot = slot
        self.session = f"session-of-{slot}-{executor}"
        self.number = self.calls = self.revision = 0
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.lines = self.socket.makefile("rb")
        self.say(wire.TaskHello(secret, slot, executor))

    def say(self, message: wire.FromTask) -> None:
        self.socket.sendall(wire.write(message))

    def hear(self) -> Any:
        """Read the next message; None if the driver has ended the connection."""
        with contextlib.suppress(OSError):
            if line := self.lines.readline():
                return wire.read_from_driver(line)
        return None

    def ask(self, *holds: MessageQueue, wait: float = 0.0) -> Any:
        """Send a sign of life; return the queues that are granted, or the refusal."""
        self.number += 1
        self.say(
            wire.TaskAsk(
                MemberRequest(self.session, self.number, self.revision, write_queues(holds), wait)
            )
        )
        answer = self.hear()
        if not isinstance(answer, wire.AskGranted):
            return answer
        self.revision = answer.answer.revision
        return set(read_queues(answer.answer.grants))

    def commit(
        self, number: int, *ranges: tuple[MessageQueue, int, int], folder: str = "", dead: str = ""
    ) -> Any:
        self.send_commit(number, *ranges, folder=folder, dead=dead)
        return self.hear()

    def send_commit(
        self, number: int, *ranges: tuple[MessageQueue, int, int], folder: str = "", dead: str = ""
    ) -> None:
        self.calls += 1
        parts = [Range(*each) for each in ranges]
        figures = wire.CommitFigures(rows=int(bool(folder or dead)), bytes=10, age=1.0, delay=0.5)
        self.say(wire.TaskCommit(self.calls, self.session, number, parts, folder, dead, figures))

    def close(self) -> None:
        self.lines.close()
        self.socket.close()
