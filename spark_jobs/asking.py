"""
Ask all brokers of some topics concurrently for the offsets of their queues.

If a broker fails to answer, later batches do not wait for it. Instead, a separate request, the
probe, tests the broker in the background. When the broker has answered the probe, the next batch
asks the broker again. So a frozen broker costs one timeout, not one for each topic and batch.

Nor do batches wait for brokers that routes have lost: an answer from the last known address counts
when the next batch is planned.
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
"""How long a batch waits for answers to the probes of brokers whose connections failed."""


@dataclass(frozen=True, slots=True)
class BrokerReply:
    """One broker's answer for one topic."""

    broker: BrokerRoute
    answer: Ends | errors.MqError
    is_master: bool = True
    """False for a slave: only a master knows for sure where queues begin and end."""


@dataclass(frozen=True, slots=True)
class _Probe:
    topic: str
    error: errors.UnavailableError
    """Why the broker counts as silent."""
    task: RunningFlow[Ends]

    @property
    def is_lost(self) -> bool:
        """Whether the connection failed. If False, the answer did not come in time."""
        return isinstance(self.error, errors.ConnectionLostError)

    @property
    def failure(self) -> errors.UnavailableError | None:
        """Why the probe failed; None if it is answered or still in flight."""
        if self.task.is_done:
            try:
                self.task.get_result()
            except errors.UnavailableError as error:
                return error
            except errors.MqError:
                pass  # an error of the broker is an answer too
        return None

    @property
    def is_answered(self) -> bool:
        """Whether the probe is answered."""
        return self.task.is_done and self.failure is None


class Asker:
    """Asks brokers for the offsets of topics."""

    def __init__(self, client: Client) -> None:
        """Send no request yet."""
        self._client = client
        self._probes: dict[str, _Probe] = {}
        """The probes of brokers that do not answer, by address."""
        self._unlisted: dict[tuple[str, str], RunningFlow[Ends]] = {}
        """The requests to brokers that are not in the route, by topic and address."""
        self.addresses: dict[str, str] = {}
        """The last address of each broker."""

    def ask(self, topics: Iterable[str]) -> dict[str, list[BrokerReply] | errors.TopicUnknownError]:
        """Collect the replies of each topic's brokers, or the error that the topic is unknown."""
        found: dict[str, list[BrokerReply] | errors.TopicUnknownError] = {}
        routes: dict[str, Route] = {}
        for topic, route in self._find_routes(topics).items():
            if isinstance(route, Route):
                routes[topic], found[topic] = route, []
            else:
                found[topic] = route
        acting = self._find_acting(routes.values())
        for topic, broker, answer in self._collect_answers(routes):
            is_master = broker.master is not None and broker.broker not in acting
            replies = found[topic]
            assert isinstance(replies, list)
            replies.append(BrokerReply(broker, answer, is_master))
        for topic, reply in self._ask_unlisted(routes):
            replies = found[topic]
            assert isinstance(replies, list)
            replies.append(reply)
        return found

    def _find_routes(self, topics: Iterable[str]) -> dict[str, Route | errors.TopicUnknownError]:
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

    def _collect_answers(
        self, routes: Mapping[str, Route]
    ) -> list[tuple[str, BrokerRoute, Ends | errors.MqError]]:
        targets = [
            (topic, broker, address)
            for topic, route in routes.items()
            for broker in route.brokers
            if (address := broker.find_address()) is not None
        ]
        self.addresses |= {broker.broker: address for _, broker, address in targets}
        self._check_probes({address for _, _, address in targets})
        silent = {address: probe.error for address, probe in self._probes.items()}
        tasks = [
            None if address in silent else self._client.start(self._make_request(address, topic))
            for topic, _, address in targets
        ]
        found: list[tuple[str, BrokerRoute, Ends | errors.MqError]] = []
        for (topic, broker, address), task in zip(targets, tasks, strict=True):
            answer: Ends | errors.MqError
            try:
                answer = silent[address] if task is None else self._client.wait(task)
            except errors.MqError as error:
                answer = error
                if isinstance(error, errors.UnavailableError) and address not in self._probes:
                    self._start_probe(address, topic, error)
            found.append((topic, broker, answer))
        return found

    def _ask_unlisted(self, topics: Iterable[str]) -> list[tuple[str, BrokerReply]]:
        """
        Ask brokers that routes have lost lately. Return the answers to the requests before.

        Only offsets count. Another broker may have got the address, so they must name this broker.
        """
        before, self._unlisted = self._unlisted, {}
        found: list[tuple[str, BrokerReply]] = []
        for topic in topics:
            for broker in self._client.directory.list_unlisted(topic):
                address = broker.find_address()
                if address is None or not broker.is_readable:
                    continue
                task = before.get((topic, address))
                if task is None or task.is_done:
                    ends = _take_ends(task, broker.broker)
                    if ends:
                        found.append((topic, BrokerReply(broker, ends, broker.master is not None)))
                        self.addresses[broker.broker] = address
                    task = self._client.start(self._make_request(address, topic))
                self._unlisted[topic, address] = task
        return found

    def _check_probes(self, addresses: set[str]) -> None:
        """Drop answered probes, and probes of unused addresses. Repeat failed probes."""
        for address, probe in list(self._probes.items()):
            if address not in addresses or probe.is_answered:
                del self._probes[address]
            elif failure := probe.failure:
                self._start_probe(address, probe.topic, failure)
        lost = [probe for probe in self._probes.values() if probe.is_lost]
        if lost:
            # A broker that is down refuses connections at once. One that is back answers at once.
            self._client.engine.wait(
                lambda: all(probe.task.is_done for probe in lost), GRACE_SECONDS
            )
            for address, probe in list(self._probes.items()):
                if probe.is_answered:
                    del self._probes[address]

    def _start_probe(self, address: str, topic: str, error: errors.UnavailableError) -> None:
        task = self._client.start(self._make_request(address, topic))
        self._probes[address] = _Probe(topic, error, task)

    def _make_request(self, address: str, topic: str) -> flows.Flow[Ends]:
        return flows.ask(address, GetTopicOffsets(topic), self._client.directory.times.answer)

    def _find_acting(self, routes: Iterable[Route]) -> set[str]:
        """
        Find the brokers whose master in the route is really a slave.

        While a master is down, a name server with `supportActingMaster` puts a slave into routes as
        the master. In these routes, the topics of that broker are not writable. The name server's
        list of all brokers stays correct.
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
        except errors.MAY_PASS:
            return suspects
        return {name for name in suspects if MASTER_ID not in known.get(name, {})}


def _take_ends(task: RunningFlow[Ends] | None, broker: str) -> Ends:
    """Take the ends that this broker has reported. Return none if it has not, or another has."""
    if task is None:
        return {}
    try:
        ends = task.get_result()
    except errors.MqError:
        return {}
    return ends if {queue.broker for queue in ends} == {broker} else {}
