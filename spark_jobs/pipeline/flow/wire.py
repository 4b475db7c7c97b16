"""
The messages between the driver of a flow and its tasks. Each task has one TCP connection.

Each message is a line of JSON. A task begins with `TaskHello`. After that, `TaskAsk` and its
answers follow the contract of `contract.following`: the driver is the coordinator, and a slot is a
member.
"""

import enum
from collections.abc import Sequence

import msgspec

from contract.following import MemberAnswer, MemberRefusal, MemberRequest
from mq_client.values import MessageQueue
from spark_jobs.planning import Range


class TaskHello(msgspec.Struct, frozen=True, tag=True):
    """Identifies the task. A task that must not begin gets the answer `Stop`."""

    secret: str
    slot: str
    executor: str | None
    """The executor in which the task runs, as Spark names it."""


class TaskAsk(msgspec.Struct, frozen=True, tag=True):
    """A heartbeat that asks which queues the task may read."""

    request: MemberRequest


class TaskLocate(msgspec.Struct, frozen=True, tag=True):
    """Ask where reading this queue begins."""

    call: int
    queue: MessageQueue


class CommitFigures(msgspec.Struct, frozen=True):
    """The figures of a commit that metrics use."""

    rows: int = 0
    bytes: int = 0
    age: float = 0.0
    """The age of the first rows of the commit, in seconds."""
    delay: float = 0.0
    """The longest time from storing a message until its call, by the clocks of both machines."""


class TaskCommit(msgspec.Struct, frozen=True, tag=True):
    """
    Commit ranges that are handled, and whose rows are written.

    If the rows are in a folder, the folder becomes visible after the commit is accepted.
    """

    call: int
    session: str
    number: int
    """The number of the commit in its session. The same commit may arrive twice."""
    ranges: Sequence[Range]
    folder: str
    """The hidden folder that has the rows; empty if there is none."""
    dead_folder: str
    """The same for dead letters."""
    figures: CommitFigures


class Consequence(enum.Enum):
    """What trouble with a queue means for the job."""

    QUEUE_WAITS = "QueueWaits"
    JOB_STARTS_AGAIN = "JobStartsAgain"
    """The driver starts again, and skips lost messages before its tasks begin."""
    JOB_ENDS = "JobEnds"
    """Messages are lost, and only the user may decide to skip them."""


class TaskTrouble(msgspec.Struct, frozen=True, tag=True):
    """A queue cannot advance beyond an offset."""

    queue: MessageQueue
    offset: int
    text: str
    consequence: Consequence


class TaskLeave(msgspec.Struct, frozen=True, tag=True):
    """End the session: the task no longer holds any queue."""

    session: str


class AskGranted(msgspec.Struct, frozen=True, tag=True):
    """The answer to a `TaskAsk`, with grants."""

    number: int
    answer: MemberAnswer


class AskRefused(msgspec.Struct, frozen=True, tag=True):
    """The answer to a `TaskAsk` that the driver refuses."""

    number: int
    refusal: MemberRefusal


class Located(msgspec.Struct, frozen=True, tag=True):
    """The answer to a `TaskLocate`."""

    call: int
    offset: int
    lost_below: int = 0
    """Lost messages with a lower offset are skipped."""


class Settled(msgspec.Struct, frozen=True, tag=True):
    """The answer to a `TaskCommit`. An accepted commit is in the journal, its folder visible."""

    call: int
    is_accepted: bool


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Finish what has begun, leave, and end."""


FromTask = TaskHello | TaskAsk | TaskLocate | TaskCommit | TaskTrouble | TaskLeave
FromDriver = AskGranted | AskRefused | Located | Settled | Stop
MOST_LINE_BYTES = 8 * 1024 * 1024
_encoder = msgspec.json.Encoder()
_from_task = msgspec.json.Decoder(FromTask)
_from_driver = msgspec.json.Decoder(FromDriver)


def write(message: FromTask | FromDriver) -> bytes:
    """Write a message as a line."""
    return _encoder.encode(message) + b"\n"


def read_from_task(line: bytes) -> FromTask:
    """Read what a task sent. Errors are those of msgspec."""
    found: FromTask = _from_task.decode(line)
    return found


def read_from_driver(line: bytes) -> FromDriver:
    """Read what the driver sent."""
    found: FromDriver = _from_driver.decode(line)
    return found
