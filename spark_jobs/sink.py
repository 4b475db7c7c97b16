"""
The sink: executors send their rows as messages, in batches.

Each row is sent at least once: a task that Spark runs again sends its rows again. With an ordering
key, messages with the same key go to one queue, in the order of the partition's rows.
"""

import functools
import itertools
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from mq_client import batch_body, choosers
from mq_client.blocking import Client
from mq_client.blocking.engine import RunningFlow
from mq_client.choosers import AvoidSlow, Chooser, To
from mq_client.errors import BadParameterError, UsageError
from mq_client.messages import Message
from mq_client.operations import sending
from mq_client.values import MessageQueue, Sent
from spark_jobs import connections
from spark_jobs.options import Sending

KINDS = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "keys": ("string",),
    "tags": ("string",),
    "properties": ("map<string,string>",),
}
"""The columns that the sink reads, with their types in Spark."""
_ARROWS = {
    pa.string(): "string", pa.large_string(): "string", pa.binary(): "binary",
    pa.large_binary(): "binary", pa.map_(pa.string(), pa.string()): "map<string,string>",
}  # fmt: skip
"""The same types in Arrow, with their names in Spark."""
BATCH_MESSAGES, BATCH_BYTES = 256, 1024 * 1024
IN_FLIGHT = 4
_KEY = "0" * 32
"""A string as long as the id that a message gets when it is sent."""
_HEAD_BYTES = len(batch_body.encode([(0, b"", b"")]))
"""How many bytes a batch adds to each message."""
_Send = tuple[list[Message], RunningFlow[Sent]]


class _Writer:
    """The part that both kinds of writers share. Spark sends writers to executors."""

    def __init__(self, sending: Sending, schema: StructType) -> None:
        """Refuse columns that cannot be sent."""
        _check(sending, {field.name: field.dataType.simpleString() for field in schema.fields})
        self._sending = sending

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send one partition's rows."""
        _send(iterator, self._sending)
        return WriterCommitMessage()


class BoundedWriter(_Writer, DataSourceArrowWriter):
    """Sends a DataFrame."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Sends micro-batches."""


def _check(sending: Sending, kinds: Mapping[str, str]) -> None:
    for name, kind in kinds.items():
        is_wrong = kind not in KINDS[name] if name in KINDS else name != sending.ordering_key
        if is_wrong:
            known = ", ".join(f"{each} {' or '.join(types)}" for each, types in KINDS.items())
            raise UsageError(f"column {name} {kind}: the sink takes {known}; select only these")
    if "body" not in kinds:
        raise UsageError("there is no column body, which must contain the message's content")
    if sending.topic is None and "topic" not in kinds:
        raise UsageError("no topic: set the option topic, or add a column topic")
    if sending.ordering_key is not None and sending.ordering_key not in kinds:
        raise UsageError(f"orderingKey: there is no column {sending.ordering_key}")


def send(rows: Iterable[pa.RecordBatch], to: Sending) -> None:
    """Send Arrow's rows. Refuse columns that cannot be sent."""
    for schema, batches in itertools.groupby(rows, lambda batch: batch.schema):
        _check(to, {field.name: _ARROWS.get(field.type, str(field.type)) for field in schema})
        _send(batches, to)


def _send(rows: Iterable[pa.RecordBatch], to: Sending) -> None:
    client, chooser = connections.get_client(to.cluster), AvoidSlow()
    for batch in rows:
        if to.ordering_key:
            _send_ordered(client, batch, to)
        else:
            _send_balanced(client, batch, to, chooser)


def _send_balanced(client: Client, batch: pa.RecordBatch, to: Sending, chooser: Chooser) -> None:
    """Send with a few batches in flight."""
    in_flight: deque[_Send] = deque()
    for messages in _group_by_topic(_make_messages(batch, to)).values():
        for piece in _divide(messages):
            if len(in_flight) == IN_FLIGHT:
                _wait(client, in_flight.popleft())
            in_flight.append(_start(client, piece, chooser, to))
    for send in in_flight:
        _wait(client, send)


def _send_ordered(client: Client, batch: pa.RecordBatch, to: Sending) -> None:
    """Send one batch at a time to each queue: the next batch waits until the last is stored."""
    by_queue: dict[MessageQueue, list[Message]] = defaultdict(list)
    queues_of = functools.cache(lambda topic: choosers.list_writable(client.find_route(topic)))
    for message, key in zip(
        _make_messages(batch, to), batch[to.ordering_key].to_pylist(), strict=True
    ):
        queue = choosers.choose_by_key(queues_of(message.topic), str(key))
        by_queue[queue].append(message)
    queues = list(by_queue)
    for wave in itertools.zip_longest(*map(_divide, by_queue.values())):
        sends = [
            _start(client, piece, To(queue), to)
            for queue, piece in zip(queues, wave, strict=True)
            if piece
        ]
        for send in sends:
            _wait(client, send)


def _start(client: Client, piece: list[Message], chooser: Chooser, to: Sending) -> _Send:
    return piece, client.start(sending.send(client.directory, piece, chooser, to.group))


def _wait(client: Client, send: _Send) -> None:
    """Wait until a batch is stored. An error names the largest message of a refused batch."""
    piece, task = send
    try:
        client.wait(task)
    except BadParameterError as error:
        largest = max(piece, key=_measure)
        keys = f" with keys {' '.join(largest.keys)}" if largest.keys else ""
        raise UsageError(
            f"a message to topic {largest.topic!r}{keys}, with a body of "
            f"{len(largest.body):,} bytes, was refused: {error}"
        ) from error


def _make_messages(batch: pa.RecordBatch, to: Sending) -> list[Message]:
    columns = {name: batch[name].to_pylist() for name in KINDS if name in batch.schema.names}
    rows = zip(*columns.values(), strict=True)
    return [_make_message(dict(zip(columns, row, strict=True)), to.topic) for row in rows]


def _make_message(row: dict[str, Any], topic: str | None) -> Message:
    body = row["body"]
    if body is None:
        raise UsageError("a row has no body (null): filter such rows out")
    return Message(
        topic=row.get("topic") or topic or "",
        body=body.encode() if isinstance(body, str) else body,
        tags=row.get("tags"),
        keys=tuple((row.get("keys") or "").split()),
        properties={k: v for k, v in row.get("properties") or () if v is not None},
    )


def _group_by_topic(messages: Iterable[Message]) -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = defaultdict(list)
    for message in messages:
        found[message.topic].append(message)
    return found


def _divide(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Divide into batches that a broker accepts. A message above the limit is sent alone."""
    piece: list[Message] = []
    size = 0
    for message in messages:
        added = _measure(message)
        if piece and (len(piece) == BATCH_MESSAGES or size + added > BATCH_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(message)
        size += added
    if piece:
        yield piece


def _measure(message: Message) -> int:
    """Count the bytes of a message in a batch, including its properties and head."""
    texts = itertools.chain.from_iterable(message.make_wire_properties(_KEY).items())
    return len(message.body) + _HEAD_BYTES + sum(_count_bytes(text) + 1 for text in texts)


def _count_bytes(text: str) -> int:
    # A string that cannot be encoded is refused when it is sent.
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
