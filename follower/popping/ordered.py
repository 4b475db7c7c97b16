"""
Pops each queue in its order, for the member that holds the queue.

The member holds a queue as if it pulled it: the coordinator grants it to nobody else. But the
broker gives messages for an invisible time, and gives nobody any more of this queue until all of
them are acknowledged, given back, or visible again. So if two consumers pop one queue by mistake,
one of them waits, and the order is kept. Here a pull is a pop, and a commit acknowledges everything
below its offset.

| what happens | what the member does | what the broker does then |
|---|---|---|
| the queue is released | gives back what is not handled | gives it to the next pop at once |
| a pop is answered too late for that | gives the messages back | the same |
| the answer to a pop is lost | pops with the same id | gives the same messages again |
| the handler works for long | renews the last message at half of the time | waits for all of them |
| renewals fail for all of the time | begins again with the queue | may have given them to others |
| the answer to an acknowledgement is lost | repeats it | has nothing to do |
| an acknowledgement is late | goes on | ignores it if it has given the message again |
| the member dies, or is frozen | - | gives the messages again after the invisible time |
"""

import asyncio
import contextlib
import logging
import secrets
import ssl
from collections import defaultdict

from contract.following import GroupSource, PopTerms
from follower import pieces
from follower.brake import Brake
from follower.brokers import TIMES, GroupBrokers, find_filter, place_of
from follower.clock import clock
from follower.metrics import Metrics
from follower.options import FollowerOptions, Retries
from follower.pauses import make_pauses
from follower.popping.in_flight import InFlight
from follower.popping.invisible_time import InvisibleTime
from follower.popping.lots import LONGEST_BACKOFF, BrokerClock
from follower.popping.running import LAST_SECONDS
from follower.work import OverError, Work
from mq_client import aio, errors, pulling
from mq_client.acl import Credentials
from mq_client.messages import Unreadable
from mq_client.popping import PopHandle, PoppedMessage
from mq_client.values import MessageQueue

log = logging.getLogger("evenkeel.follower")

FIRST_POLL, LONGEST_POLL = 0.1, 2.0
"""
For how many seconds a broker keeps a pop for which it has no message. Each further one waits twice
as long.

A broker with RocksDB serves one pop of a topic and group at a time. It keeps a second one as if
there were no message, and does not wake it before the next message arrives in its queue.
"""


class OrderedBrokers(GroupBrokers):
    """Pops queues from the brokers of one group, and acknowledges what was handled."""

    def __init__(
        self,
        source: GroupSource,
        terms: PopTerms,
        options: FollowerOptions,
        metrics: Metrics,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Connect to nothing yet."""
        super().__init__(source, options, credentials, tls)
        # A broker gives no message to a pop whose connection is closed. So pops have their own.
        self._pops = aio.Client(source.name_servers, credentials=credentials, tls=tls, times=TIMES)
        self._terms = terms
        self._metrics = metrics
        self._brake = Brake(log)
        self._clocks: dict[str, BrokerClock] = defaultdict(BrokerClock)
        self._popping: set[asyncio.Task[list[tuple[int, int]]]] = set()
        self._renewals: dict[InFlight, asyncio.Task[None]] = {}
        self._returning: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Give back what the handler has not begun, and close all connections."""
        await self._pops.close()
        await asyncio.gather(*self._popping, return_exceptions=True)
        if self._returning:
            await asyncio.wait(self._returning, timeout=LAST_SECONDS)
        await super().close()

    async def locate(self, work: Work) -> int:
        """Find where the broker's next pop begins, and note how often the handler may fail."""
        work.check()
        queue = work.queue
        found = await self._client.find_committed(self.source.group, queue)
        if found is None:
            found = await self._find_first(queue)
            await super().commit(work, found)
        time = InvisibleTime(self._terms.invisible_seconds)
        flight = work.in_flight = InFlight(queue, time, found)
        work.at_end = lambda: self._end(flight)
        work.retries = Retries(
            self._terms.most_attempts, self._terms.backoff_seconds, LONGEST_BACKOFF
        )
        return found

    async def pull(self, work: Work, queues: int) -> list[tuple[int, int]]:
        """
        Pop the next messages into `work.pieces`; wait for them if there are none.

        A pop goes on when its queue is released, because the broker may already have answered it.
        """
        work.check()
        pop = asyncio.create_task(self._pop(work, queues))
        self._popping.add(pop)
        pop.add_done_callback(self._popping.discard)
        return await asyncio.shield(pop)

    async def commit(self, work: Work, offset: int) -> None:
        """Acknowledge all messages below this offset."""
        work.check()
        flight = work.in_flight
        assert flight is not None, "a queue is located before its messages are handled"
        done = flight.list_below(offset)
        if not done:
            return
        with contextlib.suppress(errors.HandleError):  # the broker has lost the queue's messages
            await self._client.acknowledge(self.source.group, work.queue.topic, done)
        flight.settle(done)

    async def _pop(self, work: Work, queues: int) -> list[tuple[int, int]]:
        flight, queue = work.in_flight, work.queue
        assert flight is not None, "a queue is located before it is pulled"
        enough = pulling.share(self._options.memory_bytes, queues)
        polls = make_pauses(FIRST_POLL, LONGEST_POLL)
        while True:
            await flight.wait_until_free()
            if work.is_over:
                raise OverError
            flight.attempt_id = flight.attempt_id or secrets.token_hex(8)
            sent_at = clock()
            found = await self._pops.pop(
                self.source.group,
                queue.topic,
                queue.broker,
                most=flight.find_room(enough),
                invisible_ms=round(flight.time.seconds * 1000),
                poll_ms=round(next(polls) * 1000),
                wanted=find_filter(self.source, queue.topic),
                queue_id=queue.id,
                is_ordered=True,
                attempt_id=flight.attempt_id,
            )
            flight.attempt_id = ""
            if found:
                break
        return await self._take(work, flight, found, sent_at)

    async def _take(
        self, work: Work, flight: InFlight, found: list[PoppedMessage], sent_at: float
    ) -> list[tuple[int, int]]:
        found.sort(key=lambda each: each.handle.offset)
        now = clock()
        popped_at = found[0].handle.popped_at_ms / 1000
        age = self._clocks[flight.queue.broker].find_age(popped_at, sent_at, now)
        expected, first = flight.next_offset, found[0].handle.offset
        flight.take(found, now - age)
        if not work.may_act():
            self._end(flight)
            raise OverError
        work.start(self._keep(flight))
        work.pieces = pieces.cut(
            min(expected, first),
            flight.next_offset,
            [each.message for each in found if not each.error],
            [
                Unreadable(each.message, each.error, each.handle.offset + 1)
                for each in found
                if each.error
            ],
            self._terms.batch,
        )
        return await self._find_gaps(flight.queue, expected, first)

    async def _find_gaps(
        self, queue: MessageQueue, expected: int, first: int
    ) -> list[tuple[int, int]]:
        """Find the messages that the broker has deleted. A filter leaves out messages too."""
        if first <= expected:
            return []
        try:
            least = await self._client.find_min_offset(queue)
        except errors.MqError as error:
            self._brake.say((queue, "gap"), f"{queue}: the broker may have deleted offsets "
                            f"{expected} to {first - 1}: {error}")  # fmt: skip
            return []
        stop = min(least, first)
        return [(expected, stop)] if stop > expected else []

    async def _keep(self, flight: InFlight) -> None:
        """Renew the invisible time of messages until all are acknowledged, or it is over."""
        while flight.handles:
            try:
                async with asyncio.timeout(max(0.0, flight.time.renew_at - clock())):
                    await flight.wait_until_free()
            except TimeoutError:
                last = flight.find_last()
                if last is None or flight.time.is_over(clock()):
                    return
                renewal = self._renewals[flight] = asyncio.create_task(self._renew(flight, last))
                renewal.add_done_callback(lambda _: self._renewals.pop(flight))
                await asyncio.shield(renewal)  # messages are given back after their renewal

    async def _renew(self, flight: InFlight, last: PopHandle) -> None:
        """Renew one message: while it is invisible, the broker gives none of this queue."""
        sent_at = clock()
        if await self._change(flight, last, flight.time.seconds):
            flight.time.count_from(sent_at)
        else:
            flight.time.renew_again(clock())

    def _end(self, flight: InFlight) -> None:
        """Give back what is left after the queue was released."""
        if flight.handles:
            task = asyncio.create_task(self._give_back(flight))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)

    async def _give_back(self, flight: InFlight) -> None:
        """Let others have the messages at once. If this fails, they get them later."""
        handles = [*flight.handles.values()]
        flight.settle(handles)
        if (renewal := self._renewals.get(flight)) is not None:
            await asyncio.wait([renewal])
        await asyncio.gather(*(self._change(flight, each, 0.0) for each in handles))

    async def _change(self, flight: InFlight, handle: PopHandle, seconds: float) -> bool:
        """Change the time after which a message comes again. Return whether this has succeeded."""
        queue = flight.queue
        try:
            await self._client.change_invisible(
                self.source.group, queue.topic, handle, round(seconds * 1000)
            )
        except errors.MqError as error:
            self._metrics.broker_failures.labels("renew").inc()
            self._brake.say(queue, f"{place_of(queue, handle.offset)}: its invisible time cannot "
                            f"be changed: {error}")  # fmt: skip
            return False
        self._brake.clear(queue, f"{queue}: invisible times can be changed again")
        return True
