"""
Asks RocketMQ: one client for each cluster, whoever asks.

Credentials that have changed make another client. One that is not used any more is closed.
"""

import asyncio
import functools
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from contract.conditions import ConditionReason
from contract.kinds.topics import BrokerQueues
from evenkeel.control.provisioning import conversation
from evenkeel.control.provisioning.conversation import TopicWish
from evenkeel.control.provisioning.steps import StepOutcome
from evenkeel.control.topics import topic_status
from evenkeel.control.topics.topic_status import ReadFailure
from mq_client import errors
from mq_client.acl import Credentials
from mq_client.aio import Client
from mq_client.values import GroupMember, Lag

ANSWER_SECONDS = 10.0
"""For all servers together that must be asked about a topic."""
IDLE_SECONDS = 300.0
"""After this a client is closed. Whatever is looked at less often than that is worth a new one."""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom to trust when speaking TLS."""

    authorities: str | None = None
    """In PEM; None: the system's."""
    anybody: bool = False

    def context(self) -> ssl.SSLContext:
        """Say it as Python takes it."""
        return _context(self.authorities, anybody=self.anybody)


@functools.lru_cache(maxsize=64)  # it is asked for at each look, and making one takes long
def _context(authorities: str | None, *, anybody: bool) -> ssl.SSLContext:
    found = ssl.create_default_context(cadata=authorities)
    if anybody:
        found.check_hostname = False
        found.verify_mode = ssl.CERT_NONE
    return found


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """How to reach a cluster. Two that say the same share their connections."""

    name_servers: tuple[str, ...]
    credentials: Credentials | None = None
    trust: Trust | None = None
    """None: no TLS."""


class Brokers:
    """All clusters that objects name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Connect to nothing yet."""
        self._clock = clock
        self._clients: dict[ClusterAddress, Client] = {}
        self._used_at: dict[ClusterAddress, float] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.requests: Counter[str] = Counter()
        """Name server requests by how they ended."""

    async def route(self, cluster: ClusterAddress, topic: str) -> list[BrokerQueues] | ReadFailure:
        """Read where a topic's queues are, or say why that cannot be told."""
        silent = errors.NoNameServerError(f"no name server has answered for {ANSWER_SECONDS:g} s")
        try:
            route = await _in_time(self._client(cluster).find_route(topic, max_age=0), silent)
        except errors.TopicUnknownError as error:
            self.requests["unknown"] += 1
            return ReadFailure(
                ConditionReason.TOPIC_UNKNOWN, f"{error}; create it, or let spec.provision do so"
            )
        except errors.MqError as error:
            self.requests["failed"] += 1
            return _unread(error)
        self.requests["answered"] += 1
        return topic_status.brokers(route)

    async def provision(
        self, cluster: ClusterAddress, task: TopicWish
    ) -> StepOutcome | ReadFailure:
        """Take a topic one step further to what is wanted, or say why that cannot be tried."""
        client = self._client(cluster)
        try:
            return await _in_time(client.run(conversation.step(client.directory, task)), _silent())
        except errors.MqError as error:
            return _unread(error)

    async def lags(self, cluster: ClusterAddress, group: str, topic: str) -> list[Lag]:
        """Tell how far a group is behind on each queue of a topic."""
        return await _in_time(self._client(cluster).measure_lag(group, topic), _silent())

    async def members(self, cluster: ClusterAddress, group: str, topic: str) -> list[GroupMember]:
        """List the clients that read in a group's name."""
        try:
            asked = self._client(cluster).list_members(group, topic)
            return list((await _in_time(asked, _silent())).members)
        except (errors.GroupUnknownError, errors.GroupEmptyError):
            return []

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.close()
        await asyncio.gather(*self._closing)

    def _client(self, cluster: ClusterAddress) -> Client:
        self._used_at[cluster] = self._clock()
        self._close_idle()
        if cluster not in self._clients:
            tls = None if cluster.trust is None else cluster.trust.context()
            self._clients[cluster] = Client(
                cluster.name_servers, credentials=cluster.credentials, tls=tls
            )
        return self._clients[cluster]

    def _close_idle(self) -> None:
        """Close what nobody has used for long: nothing takes so long that it is still in use."""
        before = self._clock() - IDLE_SECONDS
        for cluster in [each for each, used_at in self._used_at.items() if used_at < before]:
            del self._used_at[cluster]
            closing = asyncio.create_task(self._clients.pop(cluster).close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


async def _in_time(answer: Awaitable[Value], silent: errors.MqError) -> Value:
    """Wait for an answer, but not for ever: then raise `silent`."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await answer
    except TimeoutError as error:
        raise silent from error


def _silent() -> errors.MqError:
    return errors.NoBrokerError(
        f"name servers and brokers have not all answered for {ANSWER_SECONDS:g} s"
    )


def _unread(error: errors.MqError) -> ReadFailure:
    if isinstance(error, errors.NoNameServerError):
        return ReadFailure(
            ConditionReason.NAME_SERVER_UNREACHABLE, f"{error}; see spec.nameServers"
        )
    if isinstance(error, errors.NoBrokerError):
        return ReadFailure(ConditionReason.BROKER_UNAVAILABLE, str(error))
    return ReadFailure(ConditionReason.NAME_SERVER_REFUSES, str(error))
