"""
Pops messages of a group, gives them to the handler, and acknowledges them.

There is one pop under way for each topic and broker, one request of acknowledgements for each
broker, and one task for each lot that the handler has. A broker that does not answer delays nothing
that other brokers have. The brokers decide who gets which message, so a member that reaches no
coordinator goes on.

| what happens | what the member does | what the broker does then |
|---|---|---|
| a pop is refused | pops again after a pause | - |
| its answer is lost, or cannot be read | pops again | gives the messages after their time |
| an older answer comes again | handles its messages again | ignores their old handles |
| an answer is read late | begins with nothing of it | may have given it to others |
| an acknowledgement fails | repeats it until the time is over | may have it already |
| it is confirmed, but lost | - | gives the messages after their time |
| a renewal fails | repeats it after a tenth of the time | counts the old time |
| all renewals fail | lets the call end, and acknowledges | may have given the messages to others |
| the answer to a dead letter's copy is lost | copies it again | has it twice |
| the broker dies | pops again, from others too | gives again what it has not noted |
"""

import asyncio
import itertools
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from contract.following import GroupSource, PopTerms
from follower.brake import Brake
from follower.brokers import find_filter, make_letter, place_of
from follower.calling import wait_for_end
from follower.clock import clock
from follower.handling import Handling, describe_briefly
from follower.metrics import Metrics
from follower.options import Begin, FollowerOptions, OnFailure
from follower.pauses import make_pauses
from follower.popping.invisible_time import InvisibleTime
from follower.popping.lots import LONGEST_BACKOFF, BrokerClock, Lot, Lots
from mq_client import errors, filters
from mq_client.aio import Client
from mq_client.choosers import RoundRobin
from mq_client.messages import StoredMessage
from mq_client.operations import popping
from mq_client.popping import PoppedMessage, PopSource
from mq_client.values import MessageQueue

log = logging.getLogger("evenkeel.follower")
BuryPopped = Callable[[StoredMessage, str], Coroutine[Any, Any, None]]
"""Stores a message with the dead letters, with what is wrong with it."""

POLL_MS = 15_000
"""How long a broker keeps a pop for which it has no message."""
LEFTOVERS_POLL_MS = 5_000
"""The same for leftovers. A message that arrives in the meantime does not end such a pop."""
ROUTE_SECONDS = 10.0
"""How often the name server is asked which brokers have a topic."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Pauses between attempts at brokers."""
UNCALLED = 3
"""
How many more deliveries than attempts a message may have before it is put aside without a call.

A delivery is no attempt if a member has stopped or was late before its handler began.
"""
LAST_SECONDS = 3.0
"""How long a member that ends waits for the answers to its last requests."""


class GiveBackError(Exception):
    """The handler has done nothing with its messages, and they are not at fault."""


class Popping:
    """Pops for one member, from `start` to `stop`."""

    def __init__(
        self,
        source: GroupSource,
        terms: PopTerms,
        open_client: Callable[[], Client],
        handling: Handling,
        options: FollowerOptions,
        metrics: Metrics,
        bury: BuryPopped | None = None,
    ) -> None:
        """Connect to nothing yet. Without `bury`, dead letters go to a topic."""
        self._source = source
        self._terms = terms
        self._pops, self._client = open_client(), open_client()
        # A broker gives no message to a pop whose connection is closed. So a member that ends
        # closes the connections of its pops, and keeps those of everything else.
        self._handling = handling
        self._options = options
        self._metrics = metrics
        self._bury_elsewhere = bury
        self._lots = Lots(terms, options.message_calls, options.memory_bytes)
        self._brake = Brake(log)
        self._room = asyncio.Event()
        self._clocks: dict[str, BrokerClock] = defaultdict(BrokerClock)
        self._sources: Sequence[PopSource] = (PopSource.TOPIC,)
        if source.messages is None:  # only the leftovers are popped
            self._sources = (PopSource.RETRIES_V1, PopSource.RETRIES_V2)
        self._brokers: dict[tuple[str, str, PopSource], asyncio.Task[None]] = {}
        """The tasks that pop, by topic, broker and source."""
        self._readable: dict[str, set[str]] = {}
        """The brokers of each topic."""
        self._asking: list[asyncio.Task[None]] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._renewals: dict[Lot, asyncio.Task[None]] = {}
        self._acks: dict[tuple[str, str], list[Lot]] = defaultdict(list)
        """Lots that are not acknowledged yet, by topic and broker."""
        self._acking: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopping = False

    def start(self) -> None:
        """Begin to pop."""
        self._metrics.popped.set_function(self._lots.count_held)
        self._asking = [
            asyncio.create_task(_repeat(partial(self._follow_route, topic)))
            for topic in self._terms.topics
        ]

    async def stop(self, drain_seconds: float) -> None:
        """Give back what the handler has not begun, let its calls end, and acknowledge."""
        self._is_stopping = True
        await self._cancel([*self._asking, *self._brokers.values()])
        await self._pops.close()
        back = [
            asyncio.create_task(self._give_back(lot, 0.0))
            for lot in self._lots.give_back_waiting(clock())
        ]
        if self._calls:
            await asyncio.wait([*self._calls], timeout=drain_seconds)
        last = [*back, *self._acking.values()]
        if last:
            await asyncio.wait(last, timeout=LAST_SECONDS)
        await self.close()

    async def close(self) -> None:
        """End everything at once. What is not acknowledged comes again."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._asking, *self._brokers.values(), *self._calls, *self._renewals.values()]
        await self._cancel([*tasks, *self._acking.values()])
        await asyncio.gather(self._pops.close(), self._client.close())
        self._lots.held.clear()

    @staticmethod
    async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_route(self, topic: str) -> None:
        """Keep one task for each broker of a topic."""
        while True:
            try:
                route = await self._pops.find_route(topic, max_age=0)
            except errors.MqError as error:
                self._brake.say(topic, f"{topic}: its brokers cannot be found: {error}")
            else:
                self._brake.clear(topic, f"{topic}: its brokers are found again")
                self._readable[topic] = {each.broker for each in route.readable}
                for key in itertools.product([topic], self._readable[topic], self._sources):
                    task = self._brokers.get(key)
                    if task is None or task.done():
                        pops = _repeat(partial(self._pop_from, *key))
                        self._brokers[key] = asyncio.create_task(pops)
            await asyncio.sleep(ROUTE_SECONDS)

    async def _pop_from(self, topic: str, broker: str, source: PopSource) -> None:
        """
        Pop from one broker until it has left the route.

        A pop that is under way then is not cancelled, because the broker may already have lent
        messages to it.
        """
        key, wanted = (topic, broker, source), filters.EVERYTHING  # it has let leftovers pass
        if source is PopSource.TOPIC:
            wanted = find_filter(self._source, topic)
        pauses = make_pauses(FIRST_PAUSE, LONGEST_PAUSE)
        while broker in self._readable[topic]:
            most = await self._wait_for_room()
            sent_at = clock()
            try:
                found = await self._pops.pop(
                    self._source.group,
                    topic,
                    broker,
                    most=most,
                    invisible_ms=round(self._terms.invisible_seconds * 1000),
                    poll_ms=POLL_MS if source is PopSource.TOPIC else LEFTOVERS_POLL_MS,
                    wanted=wanted,
                    from_end=self._options.begin is Begin.LATEST,
                    source=source,
                )
            except errors.MqError as error:
                if source is not PopSource.TOPIC and isinstance(error, errors.TopicUnknownError):
                    await asyncio.sleep(ROUTE_SECONDS)  # nothing has come again yet
                    continue
                self._note_failure("pop", key, f"{topic}@{broker}: cannot pop: {error}")
                await asyncio.sleep(next(pauses))
                continue
            pauses = make_pauses(FIRST_PAUSE, LONGEST_PAUSE)
            self._brake.clear(key, f"{topic}@{broker}: pops work again")
            if found:
                self._take(topic, broker, found, sent_at)

    async def _wait_for_room(self) -> int:
        """Wait until messages may be popped; return how many. All pops share the room."""
        while not (room := self._lots.find_room(clock())):
            self._room.clear()
            await self._room.wait()
        return max(1, room // len(self._brokers))

    def _take(
        self, topic: str, broker: str, found: Sequence[PoppedMessage], sent_at: float
    ) -> None:
        now = clock()
        popped_at = found[0].handle.popped_at_ms / 1000
        age = self._clocks[broker].find_age(popped_at, sent_at, now)
        self._lots.take(topic, found, now - age)
        self._advance()

    def _advance(self) -> None:
        """Begin as many calls as possible."""
        now = clock()
        while len(self._calls) < self._lots.calls:
            lot = self._lots.begin_next(now)
            if lot is None:
                break
            task = asyncio.create_task(self._handle(lot))
            self._calls.add(task)
            task.add_done_callback(self._note_end)
        self._metrics.late.inc(self._lots.take_late())
        self._room.set()
        self._wake_for_renewals(now)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        if not self._is_stopping:
            self._advance()

    async def _handle(self, lot: Lot) -> None:
        """Give a lot to the handler, and settle it."""
        try:
            if any(map(self._is_over, lot.messages)):
                await self._put_over_aside(lot)
            elif (error := await self._call(lot)) is None:
                await self._acknowledge(lot)
            elif isinstance(error, GiveBackError):
                log.warning("%s@%s: %s: its messages come again", lot.topic, lot.broker, error)
                await self._give_back(lot, 0.0)
            elif len(lot.messages) > 1:
                log.warning(
                    "%s@%s: the handler failed with %d messages; now it gets each of them alone: "
                    "%s", lot.topic, lot.broker, len(lot.messages), describe_briefly(error),
                    exc_info=error,
                )  # fmt: skip
                await self._handle_singly(lot)
            else:
                await self._fail(lot, lot.messages[0], error)
        except _LateError:
            self._lots.drop_late(lot)
        except Exception:
            log.exception("%s@%s: a bug in the follower; the messages come again", lot.topic,
                          lot.broker)  # fmt: skip
            self._lots.settle(lot, is_handled=False)

    async def _handle_singly(self, lot: Lot) -> None:
        await self._wait_for_renewal(lot)
        for single in self._lots.cut_singles(lot):
            if self._is_stopping:
                await self._give_back(single, 0.0)
            else:
                await self._handle(single)

    def _is_over(self, popped: PoppedMessage) -> bool:
        """Whether the handler does not get a message: it is unreadable, or came too often."""
        return bool(popped.error) or popped.attempt >= self._terms.most_attempts + UNCALLED

    async def _put_over_aside(self, lot: Lot) -> None:
        if len(lot.messages) > 1:
            await self._handle_singly(lot)
            return
        popped = lot.messages[0]
        often = f"it came {popped.attempt} times, and was never acknowledged"
        await self._bury(lot, popped, f"cannot be read: {popped.error}" if popped.error else often)

    async def _call(self, lot: Lot) -> BaseException | None:
        """Call the handler once. Return the exception that it raised, or None."""
        if lot.time.is_late(clock()):
            raise _LateError
        holding = _LotHolding(lot.time)
        call = self._handling.begin(holding, tuple(each.message for each in lot.messages))
        try:
            await wait_for_end(call)
        except asyncio.CancelledError:
            call.cancel()
            raise
        if holding.is_late:
            raise _LateError
        error = asyncio.CancelledError() if call.cancelled() else call.result()
        if error is not None and not isinstance(error, GiveBackError):
            self._metrics.failures.inc()
        return error

    async def _acknowledge(self, lot: Lot) -> None:
        await self._settle(lot, is_handled=True)
        self._metrics.handled.inc(len(lot.messages))
        self._brake.clear(("handler", lot.topic), f"{lot.topic}: the handler succeeds again")
        self._queue_ack(lot)

    def _queue_ack(self, lot: Lot) -> None:
        key = (lot.topic, lot.broker)
        self._acks[key].append(lot)
        task = self._acking.get(key)
        if task is None or task.done():
            self._acking[key] = asyncio.create_task(_repeat(partial(self._send_acks, key)))

    async def _send_acks(self, key: tuple[str, str]) -> None:
        """Acknowledge messages of one broker until all are acknowledged."""
        topic, broker = key
        pauses = make_pauses(FIRST_PAUSE, LONGEST_PAUSE)
        while lots := self._acks.pop(key, None):
            handles = [each.handle for lot in lots for each in lot.messages]
            try:
                await self._client.acknowledge(self._source.group, topic, handles)
            except errors.MqError as error:
                self._note_failure(
                    "ack", ("ack", key), f"{topic}@{broker}: cannot acknowledge: {error}"
                )
                # An acknowledgement that comes too late has no effect.
                now = clock()
                again = [each for each in lots if not each.time.is_over(now)]
                self._acks[key] = again + self._acks[key]
                await asyncio.sleep(next(pauses))
            else:
                self._brake.clear(("ack", key), f"{topic}@{broker}: acknowledges again")

    async def _fail(self, lot: Lot, popped: PoppedMessage, error: BaseException) -> None:
        """Give a message back after the handler has failed with it, or put it aside."""
        attempts, most = popped.attempt + 1, self._terms.most_attempts
        trouble = f"the handler failed in {attempts} of {most} attempts: {describe_briefly(error)}"
        self._refuse_if_late(lot)
        if attempts >= most:
            await self._bury(lot, popped, trouble)
            return
        self._brake.say(("handler", lot.topic), f"{describe_place(popped)}: {trouble}")
        await self._give_back(lot, self._lots.find_backoff(popped))

    async def _give_back(self, lot: Lot, seconds: float) -> None:
        """Let the messages of a lot come again after this time. If this fails, they come later."""
        await self._settle(lot)
        await self._change_all(lot, seconds)

    async def _bury(self, lot: Lot, popped: PoppedMessage, trouble: str) -> None:
        """Put a message aside for good. Its lot is held until this has succeeded."""
        where = describe_place(popped)
        if self._options.on_failure is OnFailure.SKIP:
            log.error("%s: %s; it is skipped (--on-failure skip)", where, trouble)
            self._metrics.given_up.labels("skipped").inc()
            await self._settle(lot)
            self._queue_ack(lot)
            return
        key = ("bury", lot.topic, lot.broker)
        for pause in make_pauses(FIRST_PAUSE, LONGEST_PAUSE):
            try:
                await self._send_letter(lot, trouble)
            except errors.UnavailableError as error:
                self._note_failure(
                    "bury", key, f"{where}: the dead letter cannot be stored: {error}"
                )
                await asyncio.sleep(pause)
                self._refuse_if_late(lot)
            except errors.MqError as error:
                self._note_failure("bury", key, f"{where}: the dead letter is refused: {error}")
                await self._give_back(lot, LONGEST_BACKOFF)
                return
            else:
                break
        self._brake.clear(key, f"{lot.topic}@{lot.broker}: dead letters are stored")
        log.error("%s: %s; it is with the dead letters", where, trouble)
        self._metrics.given_up.labels("dead-letter").inc()
        await self._settle(lot)
        self._queue_ack(lot)

    async def _send_letter(self, lot: Lot, trouble: str) -> None:
        """Copy a message to the dead letters. The broker does it for RocketMQ's own topic."""
        (popped,) = lot.messages
        topic = self._options.dead_letter
        if self._bury_elsewhere is not None:
            await self._bury_elsewhere(popped.message, trouble)
        elif topic is None:
            await self._client.run(
                popping.copy_to_dead_letters(
                    self._client.directory, self._source.group, lot.topic, popped
                )
            )
        else:
            letter = make_letter(topic, popped.message)
            await self._client.send([letter], RoundRobin(), tries=1)

    def _wake_for_renewals(self, now: float) -> None:
        if self._timer is None and (at := self._lots.find_next_renewal(now)) is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, at - now), self._renew_due)

    def _renew_due(self) -> None:
        """Renew the invisible time of all lots of which half has passed."""
        self._timer = None
        now = clock()
        for lot in self._lots.begin_renewals(now):
            if lot not in self._renewals:
                self._renewals[lot] = asyncio.create_task(self._renew(lot))
        self._wake_for_renewals(now)

    async def _renew(self, lot: Lot) -> None:
        try:
            sent_at = clock()
            if await self._change_all(lot, self._terms.invisible_seconds):
                lot.time.count_from(sent_at)
        finally:
            del self._renewals[lot]

    async def _change_all(self, lot: Lot, seconds: float) -> bool:
        """Change the time after which the messages of a lot come again. Return if all succeeded."""

        async def change(popped: PoppedMessage) -> PoppedMessage | None:
            try:
                handle = await self._client.change_invisible(
                    self._source.group, lot.topic, popped.handle, round(seconds * 1000)
                )
            except errors.MqError as error:
                self._note_failure(
                    "renew", ("renew", lot.topic, lot.broker),
                    f"{describe_place(popped)}: its invisible time cannot be changed: {error}",
                )  # fmt: skip
                return None
            return popped._replace(handle=handle)

        found = await asyncio.gather(*map(change, lot.messages))
        if all(found):
            where = f"{lot.topic}@{lot.broker}"
            self._brake.clear(
                ("renew", lot.topic, lot.broker), f"{where}: invisible times can be changed again"
            )
        lot.messages = [each or old for each, old in zip(found, lot.messages, strict=True)]
        return all(found)

    async def _settle(self, lot: Lot, *, is_handled: bool = False) -> None:
        await self._wait_for_renewal(lot)
        self._lots.settle(lot, is_handled=is_handled)

    async def _wait_for_renewal(self, lot: Lot) -> None:
        """Wait until the newest handles of a lot are known: only they count."""
        while (renewal := self._renewals.get(lot)) is not None:
            await asyncio.wait([renewal])

    def _refuse_if_late(self, lot: Lot) -> None:
        """Raise a `_LateError` if others may have got a lot: this process was frozen, perhaps."""
        if lot.time.is_over(clock()):
            raise _LateError

    def _note_failure(self, what: str, key: object, text: str) -> None:
        self._metrics.broker_failures.labels(what).inc()
        self._brake.say(key, text)


async def _repeat(step: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a step that lasts, and begin it again after a bug: nothing else would."""
    while True:
        try:
            return await step()
        except Exception:
            log.exception("a bug in the follower; it tries again")
            await asyncio.sleep(LONGEST_PAUSE)


class _LateError(Exception):
    """Others may have got the messages: the process was frozen, or renewals have failed."""


@dataclass(slots=True)
class _LotHolding:
    """Says whether a call that has waited for a thread may still begin."""

    time: InvisibleTime
    is_late: bool = False
    """Whether the call did not begin, because others may have got the messages."""

    def may_act(self) -> bool:
        """Return whether nobody else can have got the messages yet. Thread-safe."""
        self.is_late = self.time.is_late(clock())
        return not self.is_late


def describe_place(popped: PoppedMessage) -> str:
    """Write where a message is stored, for people."""
    message = popped.message
    return place_of(
        MessageQueue(message.topic, message.broker, message.queue_id), message.queue_offset
    )
