"""Asks brokers for the offsets of topics, and finds where a read starts or ends."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from mq_client import errors, flows
from mq_client.blocking import Client
from mq_client.commands.offsets import GetMaxOffset
from mq_client.flows import Flow
from mq_client.operations import offsets, routing
from mq_client.operations.routing import BrokerChoice
from mq_client.pulling import Position
from mq_client.values import MASTER_ID, READ, MessageQueue, Offsets, PullStatus
from spark_jobs.asking import Asker, BrokerReply, Ends
from spark_jobs.options import EARLIEST, LATEST, QueueEdge, Reading, StartOrEnd
from spark_jobs.planning import SeenOffsets

Value = TypeVar("Value")
Where = tuple[str, str]
"""A topic and a broker."""
log = logging.getLogger("evenkeel.source")

SAMPLE_MESSAGES, SAMPLE_BYTES = 32, 256 * 1024
NOWHERE: Mapping[MessageQueue, int] = {}
BEHIND = "its master is down, and its slave does not have the offset that is read next"


@dataclass(slots=True)
class _TopicView:
    """What the brokers have reported about the topics so far."""

    start: Mapping[MessageQueue, int]
    topics: set[str] = field(init=False)
    queues: Ends = field(default_factory=dict)
    barred: set[MessageQueue] = field(default_factory=set)
    masters: dict[Where, str] = field(default_factory=dict)
    """The addresses of the masters that have the topic."""
    by_slave: set[Where] = field(default_factory=set)
    gone: set[Where] = field(default_factory=set)
    """Topics and brokers whose master no longer has the topic."""
    silent: dict[str, errors.MqError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note which topics were read before."""
        self.topics = {queue.topic for queue in self.start}

    def note(self, topic: str, reply: BrokerReply) -> None:
        """Note a broker's answer for a topic."""
        answer, name = reply.answer, reply.broker.broker
        if isinstance(answer, errors.MAY_PASS):
            self.silent[name] = answer
        elif isinstance(answer, errors.TopicUnknownError) and topic in self.topics:
            if reply.is_master:
                self.gone.add((topic, name))
            else:
                self.silent[name] = errors.NoBrokerError(BEHIND)
        elif isinstance(answer, errors.MqError):
            raise answer
        else:
            self._note_ends((topic, name), reply, answer)

    def _note_ends(self, where: Where, reply: BrokerReply, answer: Ends) -> None:
        ends = {
            queue: each for queue, each in answer.items() if queue.id < reply.broker.read_queues
        }
        if reply.is_master:
            self.masters[where] = str(reply.broker.master)
        else:
            self.by_slave.add(where)
            held = {q: each for q, each in ends.items() if _holds(each, self.start.get(q))}
            if len(held) < len(ends):
                self.silent[where[1]] = errors.NoBrokerError(BEHIND)
            ends = held
        self.queues |= ends
        if not reply.broker.perm & READ:
            self.barred |= ends.keys()

    @property
    def closed(self) -> set[MessageQueue]:
        """Queues that a master has closed: the topic has fewer queues than before."""
        at_masters = {queue for queue in self.start if _locate(queue) in self.masters}
        return at_masters - self.queues.keys()


class TopicObserver:
    """Asks brokers about the topics that one query reads."""

    def __init__(self, client: Client, reading: Reading) -> None:
        """Send no request yet."""
        self._client = client
        self._reading = reading
        self._asker = Asker(client)
        self._barred: frozenset[Where] = frozenset()
        self.silent: frozenset[str] = frozenset()
        """Brokers that did not answer the last `observe`."""

    def observe(
        self, start: Mapping[MessageQueue, int] = NOWHERE, *, is_new: bool | None = None
    ) -> SeenOffsets:
        """
        Ask all brokers of all topics. Leave out brokers that do not answer, and log each one once.

        If no name server knows a topic that was never read, raise an error. A query that skips
        losses ignores such a topic, unless the query's offset log is still empty. If no name server
        knows a topic that was read before, the topic's queues count as closed on brokers whose
        master runs. The other brokers of that topic count as silent.

        Only a master can report that a topic, queue or message is gone. If a slave answers for its
        master, leave out each queue whose offset in `start` the slave does not have.
        """
        is_new = not start if is_new is None else is_new
        view = _TopicView(start)
        is_needed = self._reading.fail_on_data_loss or is_new
        for topic, answers in self._ask(
            view.topics | self._list_topics(view.topics, is_new)
        ).items():
            if isinstance(answers, list):
                for answer in answers:
                    view.note(topic, answer)
            elif topic not in view.topics and is_needed:
                raise answers
        exhausted = self._find_exhausted(view)
        answered = view.gone | {where for where in view.masters if where[1] not in view.silent}
        missing = {_locate(queue) for queue in start} - answered - view.by_slave
        lacking = self._find_lacking({where for where in missing if where[1] not in view.silent})
        for _, broker in missing - lacking:
            view.silent.setdefault(broker, errors.NoBrokerError("no route contains it now"))
        self._log_changes(view)
        return SeenOffsets(
            view.queues,
            frozenset(answered | lacking),
            view.silent,
            exhausted,
            frozenset(view.barred),
            frozenset(view.by_slave),
        )

    @property
    def addresses(self) -> dict[str, str]:
        """The newest known address of each broker that was asked so far."""
        return self._asker.addresses

    def find_offsets(self, at: StartOrEnd, seen: SeenOffsets) -> dict[MessageQueue, int]:
        """Find the offset at which reading starts or ends in each queue."""
        unknown = sorted(at.offsets.keys() - seen.queues.keys())
        if unknown:
            raise errors.UsageError(f"offsets were given for {unknown[0]}, which cannot be read")
        ends = {queue: given.min for queue, given in seen.queues.items()}
        match at.edge:
            case QueueEdge.LATEST:
                ends = {queue: given.max for queue, given in seen.queues.items()}
            case QueueEdge.GROUP:
                ends |= self.read_committed(seen)
            case QueueEdge.TIMESTAMP:
                ends = self._run_all(
                    {
                        queue: offsets.search_offset(self._client.directory, queue, at.timestamp_ms)
                        for queue in seen.queues
                    }
                )
            case QueueEdge.EARLIEST:
                pass
        for queue, offset in at.offsets.items():
            edges = {EARLIEST: seen.queues[queue].min, LATEST: seen.queues[queue].max}
            ends[queue] = edges.get(offset, offset)
        return ends

    def read_committed(self, seen: SeenOffsets) -> dict[MessageQueue, int]:
        """Read the group's committed offset of each queue that has one."""
        asks = {
            queue: offsets.find_committed(self._client.directory, self._reading.group, queue)
            for queue in seen.queues
        }
        return {queue: at for queue, at in self._run_all(asks).items() if at is not None}

    def estimate_message_bytes(
        self, start: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, float]:
        """Estimate the bytes per message of each queue by pulling the first messages."""
        return self._run_all(
            {queue: self._measure_sample(Position(queue, at)) for queue, at in start.items()}
        )

    def commit(self, at: Mapping[MessageQueue, int]) -> dict[str, errors.MqError]:
        """Send the group's offsets to all brokers; return the errors, by broker."""
        directory, group = self._client.directory, self._reading.group
        tasks = [
            (queue.broker, self._client.start(offsets.commit(directory, group, {queue: offset})))
            for queue, offset in at.items()
        ]
        failed: dict[str, errors.MqError] = {}
        for broker, task in tasks:
            try:
                self._client.wait(task)
            except errors.MqError as error:
                failed[broker] = error
        return failed

    def _list_topics(self, before: set[str], is_new: bool) -> set[str]:
        """List the topics to read. While no name server answers, a pattern finds no new topics."""
        if self._reading.pattern is None:
            return set(self._reading.topics)
        try:
            return set(filter(self._reading.reads, self._client.list_user_topics()))
        except errors.MAY_PASS:
            if is_new:
                raise
            return before

    def _ask(self, topics: set[str]) -> Mapping[str, list[BrokerReply] | errors.TopicUnknownError]:
        return self._asker.ask(sorted(topics))

    def _find_exhausted(self, view: _TopicView) -> frozenset[MessageQueue]:
        """Find the closed queues that were read to their end: their masters still know the end."""
        ends = self._ask_ends({queue: view.masters[_locate(queue)] for queue in view.closed})
        for queue, end in ends.items():
            if isinstance(end, errors.MAY_PASS):
                view.silent[queue.broker] = end
            elif isinstance(end, errors.MqError):
                raise end
        return frozenset(queue for queue, end in ends.items() if end == view.start[queue])

    def _ask_ends(
        self, at: Mapping[MessageQueue, str]
    ) -> Mapping[MessageQueue, int | errors.MqError]:
        """Ask for the end of each queue; `at` has the address to ask for each queue."""
        answer_seconds = self._client.directory.times.answer
        tasks = {
            queue: self._client.start(
                flows.ask(address, GetMaxOffset(queue.topic, queue.id), answer_seconds)
            )
            for queue, address in at.items()
        }
        found: dict[MessageQueue, int | errors.MqError] = {}
        for queue, task in tasks.items():
            try:
                found[queue] = self._client.wait(task)
            except errors.MqError as error:
                found[queue] = error
        return found

    def _find_lacking(self, candidates: set[Where]) -> set[Where]:
        """Find those pairs of topic and broker whose master runs, but lacks the topic."""
        running = self._client.list_brokers().brokers if candidates else {}
        # Read the routes after the list of brokers: brokers in the list have already registered
        # their topics.
        return {
            candidate
            for candidate in candidates
            if MASTER_ID in running.get(candidate[1], {}) and not self._has(*candidate)
        }

    def _has(self, topic: str, broker: str) -> bool:
        try:
            return self._client.find_route(topic, max_age=0).find_broker(broker) is not None
        except errors.TopicUnknownError:
            return False

    def _measure_sample(self, position: Position) -> Flow[float]:
        request = replace(
            position.make_request(self._reading.group, poll_ms=0),
            most=SAMPLE_MESSAGES,
            most_bytes=SAMPLE_BYTES,
        )
        choice = BrokerChoice.from_queue(position.queue)
        pulled = yield from routing.ask_broker(self._client.directory, choice, request)
        if pulled.status is PullStatus.OFFSET_MOVED:
            # The broker may have reported a reset of the group's offsets. It reports a reset only
            # once, so pull again.
            pulled = yield from routing.ask_broker(self._client.directory, choice, request)
        return len(pulled.body) / max(1, pulled.next_offset - position.next)

    def _run_all(self, asks: Mapping[MessageQueue, Flow[Value]]) -> dict[MessageQueue, Value]:
        """Run all flows concurrently."""
        tasks = {queue: self._client.start(flow) for queue, flow in asks.items()}
        return {queue: self._client.wait(task) for queue, task in tasks.items()}

    def _log_changes(self, view: _TopicView) -> None:
        """Log which brokers and queues have changed since the last call."""
        silent, barred = view.silent, frozenset(map(_locate, view.barred))
        for broker in sorted(silent.keys() - self.silent):
            log.warning("%s is left out until it answers: %s", broker, silent[broker])
        for broker in sorted(self.silent - silent.keys()):
            log.warning("%s answers again", broker)
        for topic, broker in sorted(barred - self._barred):
            log.warning(
                "%s@%s may not be read now: the perm of the topic or of the broker has lost READ. "
                "Its messages are kept, and are read when READ is back",
                topic,
                broker,
            )
        for topic, broker in sorted(self._barred - barred):
            log.warning("%s@%s may be read again", topic, broker)
        self.silent, self._barred = frozenset(silent), barred


def _locate(queue: MessageQueue) -> Where:
    return queue.topic, queue.broker


def _holds(ends: Offsets, offset: int | None) -> bool:
    return offset is None or ends.min <= offset <= ends.max
