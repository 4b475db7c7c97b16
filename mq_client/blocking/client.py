"""
The blocking client: each operation as a method that returns when it is done.

A client may be used by any number of threads. It opens connections when they are needed, one an
address, and shares them.
"""

import functools
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Concatenate, ParamSpec, Self, TypeVar

from mq_client import errors
from mq_client.acl import Credentials
from mq_client.blocking.engine import Engine, RunningFlow
from mq_client.blocking.membership import Membership
from mq_client.blocking.reader import QueueReader
from mq_client.directory import DEFAULT_TIMES, Directory, Times
from mq_client.filters import Filter
from mq_client.flows import Flow
from mq_client.machine import Machine
from mq_client.notices import Listeners
from mq_client.operations import membership, offsets, pulling, routing, sending
from mq_client.pulling import READER_BYTES, Position

Value = TypeVar("Value")
P = ParamSpec("P")


def _runs(
    operation: Callable[Concatenate[Directory, P], Flow[Value]],
) -> Callable[Concatenate["Client", P], Value]:
    """Make a method of an operation: run its flow to the end."""

    @functools.wraps(operation)
    def method(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Value:
        return client.engine.run(operation(client.directory, *args, **kwargs))

    return method


class Client:
    """Talks to one RocketMQ cluster."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        times: Times = DEFAULT_TIMES,
    ) -> None:
        """Connect to nothing yet."""
        self.directory = Directory(name_servers, Machine(), times, credentials)
        self._listeners = Listeners()
        self._memberships: dict[str, Membership] = {}
        self.engine = Engine(self.directory, tls, self._listeners.hear)

    route = _runs(routing.route)
    topics = _runs(routing.topics)
    users_topics = _runs(routing.users_topics)
    brokers = _runs(routing.brokers)
    put_topics = _runs(routing.put_topics)
    delete_topic = _runs(routing.delete_topic)
    min_offset = _runs(offsets.min_offset)
    max_offset = _runs(offsets.max_offset)
    master_max_offset = _runs(offsets.master_max_offset)
    search_offset = _runs(offsets.search_offset)
    topic_offsets = _runs(offsets.topic_offsets)
    committed = _runs(offsets.committed)
    commit = _runs(offsets.commit)
    lag = _runs(offsets.lag)
    heartbeat = _runs(membership.heartbeat)
    unregister = _runs(membership.unregister)
    member_ids = _runs(membership.member_ids)
    members = _runs(membership.members)
    lock = _runs(membership.lock)
    unlock = _runs(membership.unlock)
    assignment = _runs(membership.assignment)
    next_batch = _runs(pulling.next_batch)
    send = _runs(sending.send)
    send_one_way = _runs(sending.send_one_way)

    def start(self, flow: Flow[Value]) -> RunningFlow[Value]:
        """Start an operation of `mq_client.operations` and go on; `wait` gives its result."""
        return self.engine.start(flow)

    def wait(self, task: RunningFlow[Value]) -> Value:
        """Wait for an operation that was started."""
        self.engine.wait(lambda: task.is_done)
        return task.result()

    def read(
        self, group: str, positions: Iterable[Position], budget: int = READER_BYTES
    ) -> QueueReader:
        """
        Pull many queues side by side: iterate over the batches as they come.

        All that waits to be given has about `budget` bytes.
        """
        return QueueReader(self.engine, self.directory, group, positions, budget)

    def join(
        self,
        group: str,
        client_id: str,
        subscriptions: dict[str, Filter],
        members_changed: Callable[[], None] | None = None,
    ) -> Membership:
        """Become a member of a group, until the membership is left."""
        if group in self._memberships and not self._memberships[group].is_over:
            raise errors.UsageError(
                f"this client is a member of {group!r} already; brokers tell members apart by "
                "their connection, so another one needs a client of its own"
            )
        if members_changed is not None:
            self._listeners.add(group, members_changed)
        joined = Membership(self.engine, self.directory, group, client_id, subscriptions)
        self._memberships[group] = joined
        return joined

    def close(self) -> None:
        """Close all connections."""
        self.engine.close()

    def __enter__(self) -> Self:
        """Nothing is opened before it is needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close all connections."""
        self.close()
