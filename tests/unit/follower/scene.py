"""A member on its event loop, with the real desk of a coordinator and queues in memory."""

import asyncio
import collections
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from contract.following import (
    Asked,
    Denial,
    GroupSource,
    MemberAnswer,
    MemberRefusal,
    Refusal,
    Terms,
)
from contract.kinds.groups import OnOutage
from evenkeel.members.desk import GroupDesk
from evenkeel.members.doors import DeniedError
from follower.asks import NoAnswerError, RefusedError
from follower.handling import Handler, Handling
from follower.metrics import Metrics
from follower.options import FollowerOptions
from follower.pieces import DeadLetter, cut
from follower.popping.in_flight import InFlight
from follower.popping.invisible_time import InvisibleTime
from follower.queues import write_queues
from follower.running import Running
from follower.work import Work
from mq_client import errors
from mq_client.messages import StoredMessage
from mq_client.popping import ORDERED, PopHandle, PopSource
from mq_client.values import MessageQueue

TERMS = Terms(session=1.0, drain=0.5)
FIRST, SECOND = (MessageQueue("orders", "broker-a", each) for each in range(2))
BLANK = StoredMessage("orders", "broker-a", 0, 0, b"", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)


class Coordinator:
    """A real desk, which may be unreachable or refuse requests."""

    url, group, member = "http://coordinator", "shop/billing", "a"

    def __init__(self) -> None:
        self.source = GroupSource("billing", ["mq:9876"])
        self.desk = GroupDesk(TERMS, 0.0, lambda: None)
        self.is_away = False
        self.reason: str | None = None
        self.left: list[str] = []
        self.epoch = 0
        self.requests = 0

    def publish(self, *queues: MessageQueue) -> None:
        self.epoch += 1
        self.desk.publish(self.epoch, dict.fromkeys(queues, "a"), ["a"])

    async def ask(
        self, asked: Asked[MessageQueue], wait_seconds: float, seconds: float, *, pops: bool = False
    ) -> MemberAnswer:
        self.requests += 1
        if self.is_away:
            raise NoAnswerError("http://coordinator cannot be reached")
        if self.reason is not None:
            raise RefusedError(400, MemberRefusal(self.reason, "no"))
        answer = await self.desk.ask("a", asked, wait_seconds, pops=pops)
        if isinstance(answer, Refusal):
            raise RefusedError(409, MemberRefusal(answer.value, "no"))
        return MemberAnswer(
            answer.epoch, answer.revision, write_queues(answer.queues), TERMS.session,
            TERMS.drain, OnOutage.STOP, self.source,
        )  # fmt: skip

    async def leave(self, session: str) -> None:
        self.left.append(session)
        self.desk.leave("a", session)


class Brokers:
    """Queues in memory."""

    def __init__(self) -> None:
        self.ends: dict[MessageQueue, int] = {FIRST: 5, SECOND: 5}
        self.commits: dict[MessageQueue, list[int]] = collections.defaultdict(list)
        self.away: set[MessageQueue] = set()
        self.gaps: list[tuple[int, int]] = []
        self.late = 0
        """How many pulls return messages that others may have got."""
        self.reconnects = 0
        self.is_closed = False
        self._next: dict[Work, int] = {}

    async def locate(self, work: Work) -> int:
        self._refuse_if_away(work)
        found = self.commits[work.queue]
        stored = work.stored
        self._next[work] = stored if stored is not None else found[-1] if found else 0
        return self._next[work]

    async def pull(self, work: Work, queues: int) -> list[tuple[int, int]]:
        first = self._next[work]
        while True:
            self._refuse_if_away(work)
            stop = self.ends[work.queue]
            if stop > first:
                break
            await asyncio.sleep(0.005)
        topic, broker, number = work.queue
        messages = [
            BLANK._replace(topic=topic, broker=broker, queue_id=number, queue_offset=each)
            for each in range(first, stop)
        ]
        work.pieces = cut(first, stop, messages, (), 2)
        self._next[work] = stop
        if self.late:
            self.late -= 1
            handle = PopHandle(first, 0, 0, ORDERED, PopSource.TOPIC, broker, number, first)
            work.in_flight = InFlight(work.queue, InvisibleTime(0.0), stop, handles={first: handle})
        gaps, self.gaps = self.gaps, []
        return gaps

    async def commit(self, work: Work, offset: int) -> None:
        work.check()
        self._refuse_if_away(work)
        self.commits[work.queue].append(offset)

    async def bury(self, work: Work, letter: DeadLetter) -> None:
        raise AssertionError(f"no message of these stories is given up: {letter}")

    def reconnect(self) -> None:
        self.reconnects += 1

    async def close(self) -> None:
        self.is_closed = True

    def _refuse_if_away(self, work: Work) -> None:
        if work.queue in self.away:
            raise errors.NoBrokerError("the broker is away")


class Scene:
    """A member with its coordinator, brokers and handler."""

    def __init__(self, handler: Handler | None = None) -> None:
        self.coordinator = Coordinator()
        self.brokers = Brokers()
        self.opened: list[GroupSource] = []
        self.handled: dict[MessageQueue, list[int]] = collections.defaultdict(list)
        self.bad: set[tuple[MessageQueue, int]] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.metrics = Metrics()
        self.running = Running(
            self.coordinator, self._open,
            Handling(handler or self.handle, FollowerOptions(attempts=1), self.metrics),
            self.metrics,
        )  # fmt: skip

    def _open(self, source: GroupSource) -> Brokers:
        self.opened.append(source)
        return self.brokers

    async def handle(self, messages: Sequence[StoredMessage]) -> None:
        await self.gate.wait()
        for each in messages:
            queue = MessageQueue(each.topic, each.broker, each.queue_id)
            if (queue, each.queue_offset) in self.bad:
                raise ValueError("bad order")
            self.handled[queue].append(each.queue_offset)

    @contextlib.asynccontextmanager
    async def begun(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(self.running.run())
        try:
            yield task
        finally:
            self.running.stop()
            await asyncio.wait([task], timeout=2)
            self.coordinator.desk.close(DeniedError(Denial.NOT_LEADING, "it ends"))

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"evenkeel_follower_{name}", labels)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_so():  # noqa: ASYNC110  # no event reports it
            await asyncio.sleep(0.005)


def play(story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await story(Scene())

    asyncio.run(run())
