"""
Requests to RocketMQ. All topics and groups of a RocketMQ cluster share one client.

If credentials change, a new client is opened. A client that is no longer used is closed.
"""

import asyncio
import functools
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from contract.conditions import ConditionReason
from contract.kinds.topics import BrokerQueues
from evenkeel.control.groups import pop_brokers
from evenkeel.control.groups.pop_brokers import PreparedBrokers
from evenkeel.control.provisioning import conversation
from evenkeel.control.provisioning.conversation import TopicWish
from evenkeel.control.provisioning.steps import StepOutcome
from evenkeel.control.topics import topic_status
from evenkeel.control.topics.topic_status import ReadFailure
from mq_client import errors
from mq_client.acl import Credentials
from mq_client.aio import Client
from mq_client.operations.balance import begin_pops, end_pops, let_pull
from mq_client.popping import Waiting
from mq_client.values import GroupMember, Lag, MessageQueue

ANSWER_SECONDS = 10.0
"""Time limit for the answers of all servers to a question about a topic."""
MOVE_SECONDS = 45.0
"""Time limit for a move of all positions of a topic."""
IDLE_SECONDS = 300.0
"""A client that is idle for this long is closed."""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Trust:
    """Which certificates to trust in TLS connections."""

    authorities: str | None = None
    """Certificates in PEM; None to trust the certificates of the system."""
    anybody: bool = False

    def context(self) -> ssl.SSLContext:
        """Return these settings as an `ssl.SSLContext`."""
        return _make_context(self.authorities, anybody=self.anybody)


@functools.lru_cache(maxsize=64)  # each reconcile needs one, and creating one is slow
def _make_context(authorities: str | None, *, anybody: bool) -> ssl.SSLContext:
    found = ssl.create_default_context(cadata=authorities)
    if anybody:
        found.check_hostname = False
        found.verify_mode = ssl.CERT_NONE
    return found


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """How to reach a cluster. Equal addresses share their connections."""

    name_servers: tuple[str, ...]
    credentials: Credentials | None = None
    trust: Trust | None = None
    """None without TLS."""


@dataclass(slots=True)
class _OpenClient:
    """The client of one cluster."""

    client: Client
    used_at: float


class Brokers:
    """The clients of all RocketMQ clusters that objects refer to."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without any clients."""
        self._clock = clock
        self._clients: dict[ClusterAddress, _OpenClient] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.requests: Counter[str] = Counter()
        """Name server requests by outcome."""

    async def fetch_route(
        self, cluster: ClusterAddress, topic: str
    ) -> list[BrokerQueues] | ReadFailure:
        """Fetch the route of a topic. If it cannot be read, return the reason."""
        silent = errors.NoNameServerError(f"no name server answered within {ANSWER_SECONDS:g} s")
        try:
            route = await _wait(self._client(cluster).find_route(topic, max_age=0), silent)
        except errors.TopicUnknownError as error:
            self.requests["unknown"] += 1
            return ReadFailure(
                ConditionReason.TOPIC_UNKNOWN,
                f"{error}; create the topic, or let spec.provision create it",
            )
        except errors.MqError as error:
            self.requests["failed"] += 1
            return _explain_failure(error)
        self.requests["answered"] += 1
        return topic_status.list_brokers(route)

    async def provision(
        self, cluster: ClusterAddress, task: TopicWish
    ) -> StepOutcome | ReadFailure:
        """Take the next step to provision a topic. If that is impossible now, return the reason."""
        client = self._client(cluster)
        try:
            return await _wait(
                client.run(conversation.take_step(client.directory, task)), _build_timeout_error()
            )
        except errors.MqError as error:
            return _explain_failure(error)

    async def fetch_lags(self, cluster: ClusterAddress, group: str, topic: str) -> list[Lag]:
        """Fetch the lag of a group on each queue of a topic."""
        return await _wait(self._client(cluster).measure_lag(group, topic), _build_timeout_error())

    async def fetch_waiting(
        self, cluster: ClusterAddress, group: str, topic: str
    ) -> dict[str, Waiting]:
        """Fetch what waits for a group that pops, by broker."""
        asked = self._client(cluster).count_waiting(group, topic)
        return await _wait(asked, _build_timeout_error())

    async def fetch_oldest(self, cluster: ClusterAddress, group: str, topic: str) -> dict[str, int]:
        """Fetch when the oldest message was stored that nobody has got, by broker, in Unix ms."""
        asked = self._client(cluster).find_oldest_waiting(group, topic)
        return await _wait(asked, _build_timeout_error())

    async def fetch_dead_letters(self, cluster: ClusterAddress, group: str) -> int:
        """Fetch the number of messages in the dead-letter topic of a group."""
        asked = self._client(cluster).count_dead_letters(group)
        return await _wait(asked, _build_timeout_error())

    async def fetch_members(
        self, cluster: ClusterAddress, group: str, topic: str
    ) -> list[GroupMember]:
        """Fetch the clients that are members of a group."""
        try:
            asked = self._client(cluster).list_members(group, topic)
            return list((await _wait(asked, _build_timeout_error())).members)
        except (errors.GroupUnknownError, errors.GroupEmptyError):
            return []

    async def prepare_pops(
        self, cluster: ClusterAddress, group: str, topic: str, refuse: Callable[[], None]
    ) -> PreparedBrokers:
        """Create a group that pops, where it is missing."""
        client = self._client(cluster)
        step = pop_brokers.prepare(client.directory, group, topic, refuse)
        return await _wait(client.run(step), _build_timeout_error())

    async def move_positions(
        self,
        cluster: ClusterAddress,
        group: str,
        queues: Sequence[MessageQueue],
        quiet_seconds: float,
        refuse: Callable[[], None],
        *,
        had_owners: bool,
        has_owners: bool,
    ) -> bool:
        """
        Make the positions of a group ready for members that read in another way.

        Nobody may have read for `quiet_seconds`. Return False if that is not long enough.
        """
        client = self._client(cluster)
        silent = _build_timeout_error(MOVE_SECONDS)
        if not has_owners:
            begin = begin_pops(client.directory, group, queues, quiet_seconds, refuse)
            return await _wait(client.run(begin), silent, MOVE_SECONDS)
        # Pulls and pops in order begin at the same offsets.
        end = let_pull if had_owners else end_pops
        await _wait(client.run(end(client.directory, group, queues, refuse)), silent, MOVE_SECONDS)
        return True

    async def close(self) -> None:
        """Close all connections."""
        for each in self._clients.values():
            await each.client.close()
        await asyncio.gather(*self._closing)

    def _client(self, cluster: ClusterAddress) -> Client:
        now = self._clock()
        found = self._clients.get(cluster)
        if found is None:
            tls = None if cluster.trust is None else cluster.trust.context()
            client = Client(cluster.name_servers, credentials=cluster.credentials, tls=tls)
            found = self._clients[cluster] = _OpenClient(client, now)
        found.used_at = now
        self._close_idle()
        return found.client

    def _close_idle(self) -> None:
        """Close idle clients. None has a request in flight, because requests time out earlier."""
        before = self._clock() - IDLE_SECONDS
        for cluster in [key for key, each in self._clients.items() if each.used_at < before]:
            closing = asyncio.create_task(self._clients.pop(cluster).client.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


async def _wait(
    answer: Awaitable[Value], silent: errors.MqError, seconds: float | None = None
) -> Value:
    """Wait for an answer. Raise `silent` after the time limit."""
    try:
        async with asyncio.timeout(seconds or ANSWER_SECONDS):
            return await answer
    except TimeoutError as error:
        raise silent from error


def _build_timeout_error(seconds: float | None = None) -> errors.MqError:
    limit = seconds or ANSWER_SECONDS
    return errors.NoBrokerError(f"some name servers or brokers did not answer within {limit:g} s")


def _explain_failure(error: errors.MqError) -> ReadFailure:
    if isinstance(error, errors.NoNameServerError):
        return ReadFailure(
            ConditionReason.NAME_SERVER_UNREACHABLE, f"{error}; see spec.nameServers"
        )
    if isinstance(error, errors.NoBrokerError):
        return ReadFailure(ConditionReason.BROKER_UNAVAILABLE, str(error))
    return ReadFailure(ConditionReason.NAME_SERVER_REFUSES, str(error))
