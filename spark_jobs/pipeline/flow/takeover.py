"""
Takes over a checkpoint that a job with batches has written.

The flow continues where the last committed batch has ended, in the same folders. A batch that was
planned and not committed may have written its folder already. The flow reads those messages again,
so it deletes that folder first, and never uses that number: a driver that was frozen may delete the
folder late. Then it puts Spark's logs aside: an older image, which does not know flows, must not
continue where batches have ended.

| The driver dies | It leaves | The next driver |
|---|---|---|
| before the folder is deleted | Spark's logs | either engine goes on |
| before the first entry of the flow's journal | Spark's logs | either engine goes on |
| before Spark's logs are aside | the flow's journal, and Spark's logs | puts them aside |
"""

import msgspec

from contract.following import UNREADABLE
from mq_client.errors import UsageError
from spark_jobs import journal as offsets
from spark_jobs.pipeline import skipping
from spark_jobs.pipeline.flow.journal import FlowJournal, FlowState

PLANNED, COMMITTED, METADATA = "offsets", "commits", "metadata"
"""Spark's names for the logs of a query, and for the file with the query's id."""
ASIDE = "taken-over"
"""The folder of the checkpoint that has Spark's logs afterwards."""
_LINES = ("the version", "the settings", "the offsets of the only source")
"""The lines of an entry of Spark's offset log."""


def read_batches(journal: FlowJournal) -> FlowState | None:
    """Find where the last committed batch has ended. Return None if no batch was planned."""
    if not journal.list_numbers(PLANNED):
        return None
    # The first batch only notes where queues begin: it has no rows, committed or not.
    number = max(journal.list_numbers(COMMITTED), default=0)
    name = f"{PLANNED}/{number}"
    try:
        query = msgspec.json.decode(journal.read(METADATA), type=dict[str, str])["id"]
        lines = journal.read(name).decode().splitlines()
        if len(lines) != len(_LINES):
            raise ValueError(f"it has {len(lines)} lines instead of {', '.join(_LINES)}")
        written = msgspec.json.decode(lines[-1], type=dict[str, object])
        group, epoch = msgspec.convert((written["group"], written["epoch"]), tuple[str, int])
    except (KeyError, ValueError, *UNREADABLE) as error:
        raise UsageError(
            f"the checkpoint's entry {name} was not written by a job with batches ({error!r}): "
            "choose another checkpoint"
        ) from error
    entry = offsets.read(written)
    return FlowState(
        query, group, epoch, number + 1, offsets.write_offsets(entry.aside | entry.offsets),
        skip=skipping.read_last_used(written),
    )  # fmt: skip


def put_aside(journal: FlowJournal) -> None:
    """Put Spark's logs aside, if there are any. Call it once the flow has an entry of its own."""
    # The id goes first: without it, a query gets new folders, and replaces none of the old ones.
    for name in (METADATA, PLANNED, COMMITTED):
        journal.move(name, f"{ASIDE}/{journal.number}")
