"""
Takes over a checkpoint that Spark has written, for a job with batches of an earlier release.

The job continues where the last committed batch has ended, in the same folders. A batch that was
planned and not committed may have written rows already, so it stays planned. If no batch is
planned, the next number is left out: a driver of that release that was frozen may write its folder
late. Then Spark's logs are put aside: an image that knows only them must not continue where they
end.

| The driver dies | It leaves | The next driver |
|---|---|---|
| before the first entry of the journal | Spark's logs | of any release goes on |
| before Spark's logs are aside | the journal, and Spark's logs | puts them aside |
"""

import logging
from typing import Any

import msgspec

from contract.following import UNREADABLE
from mq_client.errors import UsageError
from spark_jobs import journal as offsets
from spark_jobs.pipeline.checkpoint import plans
from spark_jobs.pipeline.checkpoint.journal import CheckpointState, JobJournal

log = logging.getLogger("evenkeel.job")
PLANNED, COMMITTED, METADATA = "offsets", "commits", "metadata"
"""Spark's names for the logs of a query, and for the file with the query's id."""
ASIDE = "taken-over"
"""The folder of the checkpoint that has Spark's logs afterwards."""
_LINES = ("the version", "the settings", "the offsets of the only source")
"""The lines of an entry of Spark's offset log."""


class _Position(msgspec.Struct):
    """What a job with batches has written into an entry, besides the offsets."""

    group: str
    epoch: int
    skip: str = ""


def read(journal: JobJournal) -> CheckpointState | None:
    """
    Find where Spark's last committed batch has ended, and keep the batch that was planned after it.

    Return None if no batch was planned.
    """
    planned = journal.list_numbers(PLANNED)
    if not planned:
        return None
    # The first batch only notes where queues begin: it has no rows, committed or not.
    number = max(journal.list_numbers(COMMITTED), default=0)
    entry, position = _read_entry(journal, number)
    try:
        query = msgspec.json.decode(journal.read(METADATA), type=dict[str, str])["id"]
    except (KeyError, FileNotFoundError, *UNREADABLE) as error:
        raise _refuse(METADATA, error) from error
    log.info("the job takes over Spark's checkpoint, after batch %d", number)
    state = CheckpointState(
        query, position.group, position.epoch, number, offsets.write_offsets(entry.offsets),
        skip=position.skip, aside=offsets.write_offsets(entry.aside),
    )  # fmt: skip
    if number + 1 not in planned:
        return msgspec.structs.replace(state, batch=number + 1)
    end, position = _read_entry(journal, number + 1)
    return plans.plan(state, end, position.epoch, position.skip)


def _read_entry(journal: JobJournal, number: int) -> tuple[offsets.Entry, _Position]:
    name = f"{PLANNED}/{number}"
    try:
        lines = journal.read(name).decode().splitlines()
        if len(lines) != len(_LINES):
            raise ValueError(f"it has {len(lines)} lines instead of {', '.join(_LINES)}")
        written = msgspec.json.decode(lines[-1], type=dict[str, Any])
        return offsets.read(written), msgspec.convert(written, _Position)
    except (ValueError, UsageError, FileNotFoundError, *UNREADABLE) as error:
        raise _refuse(name, error) from error


def _refuse(name: str, error: Exception) -> UsageError:
    return UsageError(
        f"the checkpoint's entry {name} was not written by a job with batches ({error!r}): "
        "choose another checkpoint"
    )


def put_aside(journal: JobJournal) -> None:
    """Put Spark's logs aside, if there are any. Call it once the journal has an entry."""
    # The id goes first: without it, a query gets new folders, and replaces none of the old ones.
    for name in (METADATA, PLANNED, COMMITTED):
        journal.move(name, f"{ASIDE}/{journal.number}")
