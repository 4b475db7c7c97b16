"""
Ask all brokers of all topics at once what they hold.

A broker that did not answer is not waited for again. A probe asks it on, apart from all others, and
once that was answered the broker is asked as before. So a frozen broker costs one wait, not one for
each topic and batch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mq_client import errors, flows
from mq_client.blocking import Client
from mq_client.blocking.engine import RunningFlow
from mq_client.commands.offsets import GetTopicOffsets
from mq_client.operations import routing
from mq_client.values import MASTER_ID, WRITE, BrokerRoute, MessageQueue, Offsets, Route

Ends = dict[MessageQueue, Offsets]
GRACE_SECONDS = 0.25
"""How long a probe of a broker that was not running may take to count in the same batch."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one broker says of one topic."""

    broker: BrokerRoute
    answer: Ends | errors.MqError
    is_master: bool = True
    """Only a master knows where queues begin and end. A slave may be behind, or hold less."""


@dataclass(frozen=True, slots=True)
class _Probe:
    topic: str
    error: errors.UnavailableError
    """Why the broker is thought to be silent."""
    task: RunningFlow[Ends]

    @property
    def is_lost(self) -> bool:
        """Whether there was no connection, rather than no answer."""
        return isinstance(self.error, errors.ConnectionLostError)

    @property
    def failure(self) -> errors.UnavailableError | None:
        """Why it was not answered; None while it is under way."""
        if self.task.is_done:
            try:
                self.task.get_result()
            except errors.UnavailableError as error:
                return error
            except errors.MqError:
                pass  # also an answer
        return None

    @property
    def is_answered(self) -> bool:
        """Whether the broker answers again."""
        return self.task.is_done and self.failure is None


class Asker:
    """Asks brokers what topics hold."""

    def __init__(self, client: Client) -> None:
        """Ask nothing yet."""
        self._client = client
        self._probes: dict[str, _Probe] = {}
        """By address, of brokers that do not answer."""

    def ask(self, topics: Iterable[str]) -> dict[str, list[Said] | errors.TopicUnknownError]:
        """Find out, by topic, what its brokers say, or that no name server knows it."""
        found: dict[str, list[Said] | errors.TopicUnknownError] = {}
        routes: dict[str, Route] = {}
        for topic, route in self._routes(topics).items():
            if isinstance(route, Route):
                routes[topic], found[topic] = route, []
            else:
                found[topic] = route
        acting = self._acting(routes.values())
        for topic, broker, answer in self._answers(routes):
            is_master = broker.master is not None and broker.broker not in acting
            said = found[topic]
            assert isinstance(said, list)
            said.append(Said(broker, answer, is_master))
        return found

    def _routes(self, topics: Iterable[str]) -> dict[str, Route | errors.TopicUnknownError]:
        client = self._client
        tasks = {
            topic: client.start(routing.find_usable_route(client.directory, topic, max_age=0))
            for topic in topics
        }
        found: dict[str, Route | errors.TopicUnknownError] = {}
        for topic, task in tasks.items():
            try:
                found[topic] = client.wait(task)
            except errors.TopicUnknownError as error:
                found[topic] = error
        return found

    def _answers(
        self, routes: Mapping[str, Route]
    ) -> list[tuple[str, BrokerRoute, Ends | errors.MqError]]:
        places = [
            (topic, broker, address)
            for topic, route in routes.items()
            for broker in route.brokers
            if (address := broker.find_address()) is not None
        ]
        self._look_at_probes({address for _, _, address in places})
        silent = {address: probe.error for address, probe in self._probes.items()}
        tasks = [
            None if address in silent else self._client.start(self._question(address, topic))
            for topic, _, address in places
        ]
        found: list[tuple[str, BrokerRoute, Ends | errors.MqError]] = []
        for (topic, broker, address), task in zip(places, tasks, strict=True):
            answer: Ends | errors.MqError
            try:
                answer = silent[address] if task is None else self._client.wait(task)
            except errors.MqError as error:
                answer = error
                if isinstance(error, errors.UnavailableError) and address not in self._probes:
                    self._probe(address, topic, error)
            found.append((topic, broker, answer))
        return found

    def _look_at_probes(self, addresses: set[str]) -> None:
        """Forget those that were answered, or whose broker is elsewhere; try the others again."""
        for address, probe in list(self._probes.items()):
            if address not in addresses or probe.is_answered:
                del self._probes[address]
            elif failure := probe.failure:
                self._probe(address, probe.topic, failure)
        lost = [probe for probe in self._probes.values() if probe.is_lost]
        if lost:
            # A broker that does not run refuses at once, and one that runs again is asked at once.
            self._client.engine.wait(
                lambda: all(probe.task.is_done for probe in lost), GRACE_SECONDS
            )
            for address, probe in list(self._probes.items()):
                if probe.is_answered:
                    del self._probes[address]

    def _probe(self, address: str, topic: str, error: errors.UnavailableError) -> None:
        task = self._client.start(self._question(address, topic))
        self._probes[address] = _Probe(topic, error, task)

    def _question(self, address: str, topic: str) -> flows.Flow[Ends]:
        return flows.ask(address, GetTopicOffsets(topic), self._client.directory.times.answer)

    def _acting(self, routes: Iterable[Route]) -> set[str]:
        """
        Name the brokers whose master, as the routes have it, is a slave.

        A name server with `supportActingMaster` writes a slave down as the master when that is
        gone; then the topics cannot be written. Its list of all brokers tells the truth.
        """
        suspects = {
            broker.broker
            for route in routes
            for broker in route.brokers
            if broker.master is not None and not broker.perm & WRITE
        }
        if not suspects:
            return suspects
        try:
            known = self._client.list_brokers().brokers
        except (errors.UnavailableError, errors.BusyError):
            return suspects
        return {name for name in suspects if MASTER_ID not in known.get(name, {})}
