"""Ask brokers what the topics hold, and where a start or an end lies."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from mq_client import errors, flows
from mq_client.blocking import Client
from mq_client.commands.offsets import GetMaxOffset
from mq_client.flows import Flow
from mq_client.operations import offsets, routing
from mq_client.operations.routing import BrokerChoice as BrokerPlace
from mq_client.pulling import Position
from mq_client.values import MASTER_ID, READ, MessageQueue, Offsets, PullStatus
from spark_jobs.asking import Asker, Ends, Said
from spark_jobs.options import EARLIEST, LATEST, QueueEdge, Reading, StartOrEnd
from spark_jobs.planning import SeenOffsets

Value = TypeVar("Value")
Where = tuple[str, str]
"""A topic and a broker."""
log = logging.getLogger("evenkeel.source")

SAMPLE_MESSAGES, SAMPLE_BYTES = 32, 256 * 1024
NOWHERE: Mapping[MessageQueue, int] = {}
MAY_PASS = (errors.UnavailableError, errors.BusyError)
BEHIND = "its master is away, and its slave does not hold the place that is read next"


@dataclass(slots=True)
class _View:
    """What is known while the answers are looked through."""

    start: Mapping[MessageQueue, int]
    topics: set[str] = field(init=False)
    queues: Ends = field(default_factory=dict)
    barred: set[MessageQueue] = field(default_factory=set)
    masters: dict[Where, str] = field(default_factory=dict)
    """Where a master has the topic, and the master's address."""
    by_slave: set[Where] = field(default_factory=set)
    gone: set[Where] = field(default_factory=set)
    """Where a master does not have the topic any more."""
    silent: dict[str, errors.MqError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note which topics were read before."""
        self.topics = {queue.topic for queue in self.start}

    def note(self, topic: str, said: Said) -> None:
        """Take in what a broker says of a topic."""
        answer, name = said.answer, said.broker.broker
        if isinstance(answer, MAY_PASS):
            self.silent[name] = answer
        elif isinstance(answer, errors.TopicUnknownError) and topic in self.topics:
            if said.is_master:
                self.gone.add((topic, name))
            else:
                self.silent[name] = errors.NoBrokerError(BEHIND)
        elif isinstance(answer, errors.MqError):
            raise answer
        else:
            self._note_ends((topic, name), said, answer)

    def _note_ends(self, where: Where, said: Said, answer: Ends) -> None:
        ends = {queue: each for queue, each in answer.items() if queue.id < said.broker.read_queues}
        if said.is_master:
            self.masters[where] = str(said.broker.master)
        else:
            self.by_slave.add(where)
            held = {q: each for q, each in ends.items() if _holds(each, self.start.get(q))}
            if len(held) < len(ends):
                self.silent[where[1]] = errors.NoBrokerError(BEHIND)
            ends = held
        self.queues |= ends
        if not said.broker.perm & READ:
            self.barred |= ends.keys()

    @property
    def closed(self) -> set[MessageQueue]:
        """Queues that a master has closed: the topic has fewer than before."""
        at_masters = {queue for queue in self.start if _where(queue) in self.masters}
        return at_masters - self.queues.keys()


class TopicObserver:
    """Sees the topics of one reading."""

    def __init__(self, client: Client, reading: Reading) -> None:
        """Ask nothing yet."""
        self._client = client
        self._reading = reading
        self._asker = Asker(client)
        self._barred: frozenset[Where] = frozenset()
        self.silent: frozenset[str] = frozenset()
        """Brokers that did not answer the last time."""

    def see(
        self, start: Mapping[MessageQueue, int] = NOWHERE, *, is_new: bool | None = None
    ) -> SeenOffsets:
        """
        Ask all brokers of all topics. One that does not answer is left out, and logged once.

        A topic that is unknown is an error, unless it was read before: then those brokers that run
        answer that they do not have it, and the others are silent. One whose loss was passed over
        as asked stays away. A query is new while nothing was journaled.

        Only a master tells that something is gone. A queue of which a slave that stands in for its
        master does not hold the place in `start` is left out.
        """
        is_new = not start if is_new is None else is_new
        view = _View(start)
        is_needed = self._reading.fail_on_data_loss or is_new
        for topic, told in self._ask(view.topics | self._topics(view.topics, is_new)).items():
            if isinstance(told, list):
                for said in told:
                    view.note(topic, said)
            elif topic not in view.topics and is_needed:
                raise told
        exhausted = self._exhausted(view)
        answered = view.gone | {where for where in view.masters if where[1] not in view.silent}
        missing = {_where(queue) for queue in start} - answered - view.by_slave
        lacking = self._lacking({where for where in missing if where[1] not in view.silent})
        for _, broker in missing - lacking:
            view.silent.setdefault(broker, errors.NoBrokerError("it is in no route now"))
        self._tell(view)
        return SeenOffsets(
            view.queues,
            frozenset(answered | lacking),
            view.silent,
            exhausted,
            frozenset(view.barred),
            frozenset(view.by_slave),
        )

    def place(self, place: StartOrEnd, seen: SeenOffsets) -> dict[MessageQueue, int]:
        """Find the offset of a place in each queue."""
        unknown = sorted(place.offsets.keys() - seen.queues.keys())
        if unknown:
            raise errors.UsageError(f"offsets were given for {unknown[0]}, which cannot be read")
        ends = {queue: given.min for queue, given in seen.queues.items()}
        match place.edge:
            case QueueEdge.LATEST:
                ends = {queue: given.max for queue, given in seen.queues.items()}
            case QueueEdge.GROUP:
                ends |= self.stands(seen)
            case QueueEdge.TIMESTAMP:
                ends = self._all(
                    {
                        queue: offsets.search_offset(
                            self._client.directory, queue, place.timestamp_ms
                        )
                        for queue in seen.queues
                    }
                )
            case QueueEdge.EARLIEST:
                pass
        for queue, offset in place.offsets.items():
            edges = {EARLIEST: seen.queues[queue].min, LATEST: seen.queues[queue].max}
            ends[queue] = edges.get(offset, offset)
        return ends

    def stands(self, seen: SeenOffsets) -> dict[MessageQueue, int]:
        """Find where the group stands, in the queues that it has read."""
        asks = {
            queue: offsets.find_committed(self._client.directory, self._reading.group, queue)
            for queue in seen.queues
        }
        return {queue: at for queue, at in self._all(asks).items() if at is not None}

    def message_bytes(self, start: Mapping[MessageQueue, int]) -> dict[MessageQueue, float]:
        """Estimate how large the next messages of each queue are, by the first of them."""
        return self._all({queue: self._sample(Position(queue, at)) for queue, at in start.items()})

    def commit(self, at: Mapping[MessageQueue, int]) -> dict[str, errors.MqError]:
        """Tell all brokers how far the group is; by broker, why it does not know now."""
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

    def _topics(self, before: set[str], is_new: bool) -> set[str]:
        """Name the topics to read; while no name server answers, a pattern finds no new ones."""
        if self._reading.pattern is None:
            return set(self._reading.topics)
        try:
            return set(filter(self._reading.reads, self._client.list_user_topics()))
        except MAY_PASS:
            if is_new:
                raise
            return before

    def _ask(self, topics: set[str]) -> Mapping[str, list[Said] | errors.TopicUnknownError]:
        return self._asker.ask(sorted(topics))

    def _exhausted(self, view: _View) -> frozenset[MessageQueue]:
        """Pick the closed queues that were read to their end, which their masters still know."""
        ends = self._ends({queue: view.masters[_where(queue)] for queue in view.closed})
        for queue, end in ends.items():
            if isinstance(end, MAY_PASS):
                view.silent[queue.broker] = end
            elif isinstance(end, errors.MqError):
                raise end
        return frozenset(queue for queue, end in ends.items() if end == view.start[queue])

    def _ends(self, at: Mapping[MessageQueue, str]) -> Mapping[MessageQueue, int | errors.MqError]:
        """Ask for the ends of queues, at these addresses."""
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

    def _lacking(self, places: set[Where]) -> set[Where]:
        """Of topics and brokers, pick those where a master runs and does not have the topic."""
        running = self._client.list_brokers().brokers if places else {}
        # The order matters: a broker that came back in between has its topics in the route.
        return {
            place
            for place in places
            if MASTER_ID in running.get(place[1], {}) and not self._has(*place)
        }

    def _has(self, topic: str, broker: str) -> bool:
        try:
            return self._client.find_route(topic, max_age=0).find_broker(broker) is not None
        except errors.TopicUnknownError:
            return False

    def _sample(self, position: Position) -> Flow[float]:
        request = replace(
            position.make_request(self._reading.group, poll_ms=0),
            most=SAMPLE_MESSAGES,
            most_bytes=SAMPLE_BYTES,
        )
        place = BrokerPlace.from_queue(position.queue)
        pulled = yield from routing.ask_broker(self._client.directory, place, request)
        if pulled.status is PullStatus.OFFSET_MOVED:
            # The broker may have told of a reset of the group's offsets, which it does once.
            pulled = yield from routing.ask_broker(self._client.directory, place, request)
        return len(pulled.body) / max(1, pulled.next_offset - position.next)

    def _all(self, asks: Mapping[MessageQueue, Flow[Value]]) -> dict[MessageQueue, Value]:
        """Ask side by side."""
        tasks = {queue: self._client.start(flow) for queue, flow in asks.items()}
        return {queue: self._client.wait(task) for queue, task in tasks.items()}

    def _tell(self, view: _View) -> None:
        """Log what has changed since the last time."""
        silent, barred = view.silent, frozenset(map(_where, view.barred))
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
            log.warning("%s@%s is no longer closed to readers", topic, broker)
        self.silent, self._barred = frozenset(silent), barred


def _where(queue: MessageQueue) -> Where:
    return queue.topic, queue.broker


def _holds(ends: Offsets, offset: int | None) -> bool:
    return offset is None or ends.min <= offset <= ends.max
