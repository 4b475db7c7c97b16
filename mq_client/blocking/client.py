"""
The blocking client: each operation is a method that returns when the operation is done.

Any number of threads may share a client. The client opens one connection to each address, at the
first request to it. All threads share this connection.
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
from mq_client.operations import (
    groups,
    membership,
    offsets,
    oldest,
    popping,
    pulling,
    routing,
    sending,
)
from mq_client.pulling import READER_BYTES, Position

Value = TypeVar("Value")
P = ParamSpec("P")


def _make_method(
    operation: Callable[Concatenate[Directory, P], Flow[Value]],
) -> Callable[Concatenate["Client", P], Value]:
    """Turn an operation into a method that runs its flow to the end."""

    @functools.wraps(operation)
    def method(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Value:
        return client.engine.run(operation(client.directory, *args, **kwargs))

    return method


class Client:
    """A client of one RocketMQ cluster."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        times: Times = DEFAULT_TIMES,
    ) -> None:
        """Prepare the client; connections are opened when they are needed."""
        self.directory = Directory(name_servers, Machine(), times, credentials)
        self._listeners = Listeners()
        self._memberships: dict[str, Membership] = {}
        self.engine = Engine(self.directory, tls, self._listeners.hear)

    find_route = _make_method(routing.find_route)
    list_topics = _make_method(routing.list_topics)
    list_user_topics = _make_method(routing.list_user_topics)
    list_brokers = _make_method(routing.list_brokers)
    put_topics = _make_method(routing.put_topics)
    delete_topic = _make_method(routing.delete_topic)
    find_min_offset = _make_method(offsets.find_min_offset)
    find_max_offset = _make_method(offsets.find_max_offset)
    find_master_max_offset = _make_method(offsets.find_master_max_offset)
    search_offset = _make_method(offsets.search_offset)
    list_offsets = _make_method(offsets.list_offsets)
    find_committed = _make_method(offsets.find_committed)
    commit = _make_method(offsets.commit)
    measure_lag = _make_method(offsets.measure_lag)
    send_heartbeat = _make_method(membership.send_heartbeat)
    unregister = _make_method(membership.unregister)
    list_member_ids = _make_method(membership.list_member_ids)
    list_members = _make_method(membership.list_members)
    lock = _make_method(membership.lock)
    unlock = _make_method(membership.unlock)
    query_assignment = _make_method(membership.query_assignment)
    pull_batch = _make_method(pulling.pull_batch)
    pop = _make_method(popping.pop)
    acknowledge = _make_method(popping.acknowledge)
    change_invisible = _make_method(popping.change_invisible)
    send_to_dead_letters = _make_method(popping.send_to_dead_letters)
    wait_for_messages = _make_method(popping.wait_for_messages)
    count_parked_pops = _make_method(popping.count_parked_pops)
    count_waiting = _make_method(popping.count_waiting)
    find_oldest_waiting = _make_method(oldest.find_oldest_waiting)
    put_group = _make_method(groups.put_group)
    list_groups = _make_method(groups.list_groups)
    count_dead_letters = _make_method(groups.count_dead_letters)
    set_request_mode = _make_method(groups.set_request_mode)
    send = _make_method(sending.send)
    send_one_way = _make_method(sending.send_one_way)

    def start(self, flow: Flow[Value]) -> RunningFlow[Value]:
        """Start an operation of `mq_client.operations`; `wait` returns its result."""
        return self.engine.start(flow)

    def wait(self, task: RunningFlow[Value]) -> Value:
        """Wait for an operation that was started, and return its result."""
        self.engine.wait(lambda: task.is_done)
        return task.get_result()

    def read(
        self, group: str, positions: Iterable[Position], budget: int = READER_BYTES
    ) -> QueueReader:
        """
        Pull many queues concurrently: iterate over the batches as they arrive.

        `budget` is the approximate maximum total size, in bytes, of the batches that wait for the
        caller.
        """
        return QueueReader(self.engine, self.directory, group, positions, budget)

    def join(
        self,
        group: str,
        client_id: str,
        subscriptions: dict[str, Filter],
        on_change: Callable[[], None] | None = None,
    ) -> Membership:
        """Join a group until `leave` is called. Call `on_change` when its members change."""
        if group in self._memberships and not self._memberships[group].is_over:
            raise errors.UsageError(
                f"this client is already a member of {group!r}; brokers tell members apart by "
                "their connection, so use another client for another member"
            )
        if on_change is not None:
            self._listeners.add(group, on_change)
        joined = Membership(self.engine, self.directory, group, client_id, subscriptions)
        self._memberships[group] = joined
        return joined

    def reconnect(self) -> None:
        """
        Give up all open connections. The next requests open new ones.

        After an outage of the network, TCP waits for seconds before it sends lost packets again.
        """
        self.engine.reconnect()

    def close(self) -> None:
        """Close all connections."""
        self.engine.close()

    def __enter__(self) -> Self:
        """Return the client. Connections are opened when they are needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close all connections."""
        self.close()
