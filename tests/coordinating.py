"""Runs the real coordinator in a thread and serves it over HTTP. Tests publish assignments."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from contract.kinds.groups import Assigned, Balance, GroupSpec, GroupStatus, OwnedQueues
from contract.kinds.topics import TopicSpec, TopicStatus
from coordinator.sessions import HeldQueues
from evenkeel.members import server
from evenkeel.members.coordination import Coordination
from evenkeel.members.doors import TokenDoor
from evenkeel.objects import ConsumerGroup, Head, Key, Topic

TOKEN = "secret"
GROUP = "shop/billing"
_KEY, _TOPIC_KEY = Key("shop", "billing"), Key("shop", "orders")


class _Noting(Coordination):
    """Records which members leave, and how many queues are released."""

    def __init__(self) -> None:
        super().__init__(lambda key: None)
        self.left: list[str] = []
        self.released = 0
        self.queue_released = self._note_release

    def _note_release(self, _: float) -> None:
        self.released += 1

    def leave(self, key: Key, member: str, session: str) -> None:
        super().leave(key, member, session)
        self.left.append(member)


@dataclass
class Coordinator:
    """Coordinates the group `GROUP` until the block ends."""

    name_server: str
    topic: str
    group: str
    session: str
    port: int = 0
    tags: str | None = None
    """The tags of the messages that the group reads. None means all messages."""
    drain: str = "10s"
    messages: dict[str, Any] | None = None
    """`spec.messages`, if the group is balanced by message."""
    _epoch: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _ready: threading.Event = field(default_factory=threading.Event)
    _end: asyncio.Event = field(default_factory=asyncio.Event)
    _thread: threading.Thread | None = None
    _coordination: _Noting | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def left(self) -> list[str]:
        """The members that have left, in the order in which they left."""
        assert self._coordination is not None
        return self._coordination.left

    @property
    def released(self) -> int:
        """How many queues members have released for other members."""
        assert self._coordination is not None
        return self._coordination.released

    @property
    def held(self) -> HeldQueues | None:
        """How many queues are in each state; None until an assignment is published."""
        assert self._coordination is not None
        return self._coordination.find_held(_KEY)

    @property
    def client_ids(self) -> frozenset[str]:
        """The ids that members use at the brokers, as the members have reported them."""
        assert self._coordination is not None
        return self._coordination.list_client_ids(_KEY) or frozenset()

    def end(self, member: str) -> None:
        """End the session of a member, as the operator does when its pod has ended."""
        assert self._coordination is not None
        self._loop.call_soon_threadsafe(self._coordination.end, _KEY, member)

    def publish(self, owners: Mapping[str, Sequence[tuple[str, str]]]) -> None:
        """Publish an assignment: for each member its brokers and queue ids."""
        self._epoch += 1
        assigned = [
            Assigned(member, queues=[OwnedQueues(self.topic, broker, ids) for broker, ids in owned])
            for member, owned in owners.items()
        ]
        status = GroupStatus(epoch=self._epoch, assignments=assigned)
        self._loop.call_soon_threadsafe(self._follow, status)

    def _follow(self, status: GroupStatus) -> None:
        read: dict[str, Any] = {"name": "orders"}
        if self.tags is not None:
            read["filter"] = {"tags": self.tags}
        spec: dict[str, Any] = {"topics": [read], "group": self.group}
        spec["consumers"] = {"members": {"session": self.session, "drain": self.drain}}
        if self.messages is not None:
            spec |= {"balance": "Messages", "messages": self.messages}
            is_ordered = self.messages.get("ordered", False)
            status = msgspec.structs.replace(status, balance=Balance.MESSAGES, ordered=is_ordered)
        group = ConsumerGroup(Head(_KEY), msgspec.convert(spec, GroupSpec), status)
        told = {"nameServers": [self.name_server], "topic": self.topic}
        topic = Topic(Head(_TOPIC_KEY), msgspec.convert(told, TopicSpec), TopicStatus())
        assert self._coordination is not None
        self._coordination.follow(group, {_TOPIC_KEY: topic})

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()])
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._loop.close()

    def stop(self) -> None:
        """Stop answering."""
        assert self._thread is not None
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(10)

    async def _serve(self) -> None:
        self._coordination = _Noting()
        async with server.serve(
            self._coordination, TokenDoor(TOKEN), server.open_port(0)
        ) as self.port:
            self._ready.set()
            await self._end.wait()
            self._coordination.close()
