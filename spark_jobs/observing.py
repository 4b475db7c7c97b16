"""Ask brokers what the topics hold, and where a start or an end lies."""

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from mq_client import errors
from mq_client.blocking import Client
from mq_client.commands.consuming import GetTopicOffsets
from mq_client.flows import Flow
from mq_client.operations import offsets, routing
from mq_client.operations.routing import Place as BrokerPlace
from mq_client.pulling import Position
from mq_client.values import Offsets, Queue, Route
from spark_jobs.options import EARLIEST, LATEST, Edge, Place, Reading
from spark_jobs.planning import Seen

Value = TypeVar("Value")
log = logging.getLogger("evenkeel.source")

SAMPLE_MESSAGES, SAMPLE_BYTES = 32, 256 * 1024
NOWHERE: Mapping[Queue, int] = {}
MAY_PASS = (errors.UnavailableError, errors.BusyError)


class Observer:
    """Sees the topics of one reading."""

    def __init__(self, client: Client, reading: Reading) -> None:
        """Ask nothing yet."""
        self._client = client
        self._reading = reading
        self._silent: frozenset[str] = frozenset()

    def see(self, start: Mapping[Queue, int] = NOWHERE) -> Seen:
        """
        Ask all brokers of all topics. One that does not answer is left out, and logged once.

        A topic that is unknown is an error, unless it was read before: then those brokers that run
        answer that they do not have it, and the others are silent. One whose loss was passed over
        as asked stays away. A slave that stands in for its
        master, and has not come as far as we have, is left out too.
        """
        queues: dict[Queue, Offsets] = {}
        answered: set[tuple[str, str]] = set()
        having: set[tuple[str, str]] = set()
        silent: dict[str, errors.MqError] = {}
        before = {queue.topic for queue in start}
        is_needed = self._reading.fail_on_data_loss or not before
        for topic in sorted(before | self._topics(before)):
            try:
                route, answers = self._ask(topic)
            except errors.TopicUnknownError:
                if topic not in before and is_needed:
                    raise
                continue
            for broker, answer in answers.items():
                if isinstance(answer, MAY_PASS):
                    silent[broker] = answer
                elif isinstance(answer, errors.TopicUnknownError) and topic in before:
                    answered.add((topic, broker))
                elif isinstance(answer, errors.MqError):
                    raise answer
                elif _is_behind(route, broker, answer, start):
                    silent[broker] = errors.NoBrokerError("its slave has not come so far yet")
                else:
                    having.add((topic, broker))
                    readable = answer.keys() & set(route.readable)
                    queues |= {queue: answer[queue] for queue in readable}
        closed = {queue for queue in start if (queue.topic, queue.broker) in having} - queues.keys()
        exhausted = set()
        for queue in closed:
            try:
                if self._end(queue) == start[queue]:
                    exhausted.add(queue)
            except MAY_PASS as error:
                silent[queue.broker] = error
        answered |= {place for place in having if place[1] not in silent}
        missing = {(queue.topic, queue.broker) for queue in start} - answered
        lacking = self._lacking({place for place in missing if place[1] not in silent})
        answered |= lacking
        for _, broker in missing - lacking:
            silent.setdefault(broker, errors.NoBrokerError("it is in no route now"))
        self._tell(silent)
        return Seen(queues, frozenset(answered), silent, frozenset(exhausted))

    def place(self, place: Place, seen: Seen) -> dict[Queue, int]:
        """Find the offset of a place in each queue."""
        unknown = sorted(place.offsets.keys() - seen.queues.keys())
        if unknown:
            raise errors.UsageError(f"offsets were given for {unknown[0]}, which cannot be read")
        ends = {queue: given.min for queue, given in seen.queues.items()}
        match place.edge:
            case Edge.LATEST:
                ends = {queue: given.max for queue, given in seen.queues.items()}
            case Edge.GROUP:
                ends |= self.stands(seen)
            case Edge.TIMESTAMP:
                ends = self._all(
                    {
                        queue: offsets.search_offset(
                            self._client.directory, queue, place.timestamp_ms
                        )
                        for queue in seen.queues
                    }
                )
            case Edge.EARLIEST:
                pass
        for queue, offset in place.offsets.items():
            edges = {EARLIEST: seen.queues[queue].min, LATEST: seen.queues[queue].max}
            ends[queue] = edges.get(offset, offset)
        return ends

    def stands(self, seen: Seen) -> dict[Queue, int]:
        """Find where the group stands, in the queues that it has read."""
        asks = {
            queue: offsets.committed(self._client.directory, self._reading.group, queue)
            for queue in seen.queues
        }
        return {queue: at for queue, at in self._all(asks).items() if at is not None}

    def message_bytes(self, start: Mapping[Queue, int]) -> dict[Queue, float]:
        """Estimate how large the next messages of each queue are, by the first of them."""
        return self._all({queue: self._sample(Position(queue, at)) for queue, at in start.items()})

    def commit(self, at: Mapping[Queue, int]) -> dict[str, errors.MqError]:
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

    def _topics(self, before: set[str]) -> set[str]:
        """Name the topics to read; while no name server answers, a pattern finds no new ones."""
        if self._reading.pattern is None:
            return set(self._reading.topics)
        is_wanted = re.compile(self._reading.pattern).fullmatch
        try:
            return set(filter(is_wanted, self._client.users_topics()))
        except MAY_PASS:
            if not before:
                raise
            return before

    def _ask(self, topic: str) -> tuple[Route, dict[str, dict[Queue, Offsets] | errors.MqError]]:
        directory, run = self._client.directory, self._client.engine.run
        route = run(routing.usable_route(directory, topic, max_age=0))
        return route, run(routing.ask_brokers(directory, topic, GetTopicOffsets(topic)))

    def _end(self, queue: Queue) -> int:
        """Find a queue's end, which its broker knows as well when it is closed."""
        return self._client.engine.run(offsets.max_offset(self._client.directory, queue))

    def _lacking(self, places: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """Of topics and brokers, pick those where the broker runs and does not have the topic."""
        running = self._client.brokers().brokers if places else {}
        # The order matters: a broker that came back in between has its topics in the route.
        return {place for place in places if place[1] in running and not self._has(*place)}

    def _has(self, topic: str, broker: str) -> bool:
        try:
            return self._client.route(topic, max_age=0).broker(broker) is not None
        except errors.TopicUnknownError:
            return False

    def _sample(self, position: Position) -> Flow[float]:
        request = replace(
            position.request(self._reading.group, poll_ms=0),
            most=SAMPLE_MESSAGES,
            most_bytes=SAMPLE_BYTES,
        )
        pulled = yield from routing.ask_broker(
            self._client.directory, BrokerPlace.of(position.queue), request
        )
        return len(pulled.body) / max(1, pulled.next_offset - position.next)

    def _all(self, asks: Mapping[Queue, Flow[Value]]) -> dict[Queue, Value]:
        """Ask side by side."""
        tasks = {queue: self._client.start(flow) for queue, flow in asks.items()}
        return {queue: self._client.wait(task) for queue, task in tasks.items()}

    def _tell(self, silent: Mapping[str, errors.MqError]) -> None:
        for broker in sorted(silent.keys() - self._silent):
            log.warning("%s is left out until it answers: %s", broker, silent[broker])
        for broker in sorted(self._silent - silent.keys()):
            log.warning("%s answers again", broker)
        self._silent = frozenset(silent)


def _is_behind(
    route: Route, broker: str, ends: Mapping[Queue, Offsets], start: Mapping[Queue, int]
) -> bool:
    found = route.broker(broker)
    has_master = found is not None and found.master is not None
    return not has_master and any(start.get(queue, 0) > each.max for queue, each in ends.items())
