"""
What a follower does at RocketMQ's brokers: locate, pull, commit, and store dead letters.

A process that was frozen in the middle of a write operation must not continue the operation. So a
write operation checks before each of its requests that the member still holds the queue.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeVar

from contract.following import GroupSource
from follower import pieces
from follower.options import Begin, FollowerOptions
from follower.pieces import DeadLetter, Messages
from follower.work import Work
from mq_client import aio, errors, filters, pulling
from mq_client.acl import Credentials
from mq_client.choosers import RoundRobin
from mq_client.directory import Times
from mq_client.flows import Flow
from mq_client.messages import Message, StoredMessage, Unreadable
from mq_client.operations import offsets, sending
from mq_client.pulling import Batch, Position
from mq_client.values import DLQ_PREFIX, MessageQueue, TopicConfig

Value = TypeVar("Value")
TIMES = Times(patience=5.0)
"""After `patience`, the client reports an unreachable broker. The follower then tries again."""
PASSING_SECONDS = 1.0
"""Interval at which the offset advances while the filter rejects all messages."""
LARGE_BYTES = 64 * 1024
"""A larger batch is decoded in a thread, so that it does not block the event loop."""
_ORIGIN_TOPIC, _ORIGIN_ID = "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID"
"""Properties in which RocketMQ 5 stores the origin of a dead letter."""
_NOT_KEPT = frozenset(
    ("TAGS", "KEYS", "DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC")
) | frozenset(
    ("TRAN_MSG", "REAL_TOPIC", "REAL_QID", "INNER_NUM", "INNER_BASE", "POP_CK", "1ST_POP_TIME")
)
"""
Properties that a dead letter does not get: those for which `Message` has fields, and those on which
brokers would act.
"""


def guard(work: Work, flow: Flow[Value]) -> Flow[Value]:
    """Run a flow, and check before each of its steps that the member still holds the queue."""
    outcome: object = None
    while True:
        try:
            if isinstance(outcome, errors.MqError):
                step = flow.throw(outcome)
            else:
                step = flow.send(outcome)
        except StopIteration as stop:
            value: Value = stop.value
            return value
        work.check()
        try:
            outcome = yield step
        except errors.MqError as error:
            outcome = error


class GroupBrokers:
    """Reads from the brokers of one group, and writes to them."""

    def __init__(
        self,
        source: GroupSource,
        options: FollowerOptions,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Connect to nothing yet."""
        self.source = source
        self._options = options
        self._client = aio.Client(
            source.name_servers, credentials=credentials, tls=tls, times=TIMES
        )

    def reconnect(self) -> None:
        """Give up all open connections; the next requests open new ones."""
        self._client.reconnect()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def locate(self, work: Work) -> int:
        """
        Find the offset at which reading begins.

        It is the offset in the handler's store, otherwise the group's committed offset, otherwise
        the one that the option `begin` selects. If this offset differs from the committed one,
        commit it at once. Then the next member begins at the same offset even if this member dies
        before its first commit. Also, the lag does not look too large before that commit.
        """
        work.check()
        group, queue, client = self.source.group, work.queue, self._client
        committed = await client.find_committed(group, queue)
        found = committed if work.stored is None else work.stored
        if found is None:
            found = await self._find_first(queue)
        if found != committed:
            await self.commit(work, found)
        work.position = Position(
            queue, found, wanted=find_filter(self.source, queue.topic), allow_gaps=True
        )
        return found

    async def _find_first(self, queue: MessageQueue) -> int:
        """Find where reading begins in a queue for which the group has committed no offset."""
        if self._options.begin is Begin.EARLIEST:
            return await self._client.find_min_offset(queue)
        return await self._client.find_max_offset(queue)

    async def pull(self, work: Work, queues: int) -> list[tuple[int, int]]:
        """
        Pull the next messages into `work.pieces`; wait for them if there are none.

        Return the gaps: the offsets of messages that the broker has deleted.
        """
        work.check()
        position = work.position
        assert position is not None, "a queue is located before it is pulled"
        enough = pulling.share(self._options.memory_bytes, queues)
        batch = await self._client.pull_batch(self.source.group, position, enough, PASSING_SECONDS)
        assert batch is not None, "a position without a stop has no end"
        gaps, position.gaps = position.gaps, []
        is_arrow = self.wants_columns(batch)
        read: Callable[[list[Unreadable]], Messages] = (
            batch.to_columns if is_arrow else batch.to_messages
        )
        unreadable: list[Unreadable] = []
        if len(batch.body) > LARGE_BYTES:
            messages = await asyncio.to_thread(read, unreadable)
        else:
            messages = read(unreadable)
        source = batch if is_arrow else None
        work.pieces = pieces.cut(
            batch.first, batch.stop, messages, unreadable, self._options.batch, source
        )
        return gaps

    def wants_columns(self, batch: Batch) -> bool:
        """Whether the handler gets the messages of this batch as Arrow columns."""
        return self._options.arrow

    async def commit(self, work: Work, offset: int) -> None:
        """Store the offset that the group reads next."""
        flow = offsets.commit(self._client.directory, self.source.group, {work.queue: offset})
        await self._client.run(guard(work, flow))

    async def bury(self, work: Work, letter: DeadLetter) -> None:
        """Store a message in the dead-letter topic."""
        topic = self._options.dead_letter or DLQ_PREFIX + self.source.group
        flow = sending.send(
            self._client.directory,
            make_letter(topic, letter.message),
            RoundRobin(),
            tries=1,
        )
        try:
            await self._client.run(guard(work, flow))
        except errors.TopicUnknownError:
            if self._options.dead_letter is not None:
                raise
            # Create the topic when it is first needed, as RocketMQ's brokers do.
            await self._client.put_topics([TopicConfig(topic, 1, 1)])
            raise


def find_filter(source: GroupSource, topic: str) -> filters.Filter:
    """Find which messages of a topic the group reads."""
    if topic in source.sql:
        return filters.match_sql(source.sql[topic])
    return filters.match_tags(source.tags.get(topic, filters.ALL))


def make_letter(topic: str, message: StoredMessage) -> Message:
    """Make a dead letter. Its properties name the original message."""
    kept = {
        name: value for name, value in message.properties.items() if name not in _NOT_KEPT and value
    }
    kept[_ORIGIN_TOPIC] = message.topic
    kept[_ORIGIN_ID] = message.msg_id
    return Message(
        topic, message.body, tags=message.tags, keys=message.keys,
        properties=kept, flag=message.flag,
    )  # fmt: skip


def place_of(queue: MessageQueue, offset: int) -> str:
    """Write the queue and the offset of a message, for people."""
    return f"{queue} offset {offset}"
