"""
Runs a master and a slave, and a relay between them that a test can hold.

The brokers have small files, and delete them soon. Clients connect through `Answers`, which counts
their pulls.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mq_client import flows
from mq_client.blocking import Client
from mq_client.commands import cluster
from mq_client.commands.base import Done, Request, Value_co, read_whole
from mq_client.commands.cluster import GetRuntimeInfo
from mq_client.commands.offsets import GetMaxOffset
from mq_client.commands.sending import Send
from mq_client.frames import Frame
from mq_client.values import MessageQueue, TopicConfig
from sandbox import rocketmq
from sandbox.rocketmq import Broker, RocketMq
from sandbox.waiting import wait_for
from tests.answers import Answers
from tests.proxy import Proxy

PROPERTIES = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "2000",  # one file has room for 100 messages
    "fileReservedTime": "0",
    "deleteWhen": "99",  # never at a time of day, only on request
    "cleanResourceInterval": "100",
    "deleteCommitLogFilesInterval": "10",
    "deleteConsumeQueueFilesInterval": "10",
    "longPollingEnable": "false",
    "shortPollingTimeMills": "200",
    "registerNameServerPeriod": "60000",
    "waitTimeMillsInSendQueue": "60000",  # by default a busy broker refuses after 0.2 s
}
DELETES_AFTER_SECONDS = 62.0
"""A broker deletes nothing in its first minute."""
_HAS_DELETED = "manualDeleteFileSeveralTimes: 0"
"""A request to delete covers a broker's next 20 attempts. The broker logs this at the last one."""
ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class DeleteExpired(Done):
    """Ask a broker to delete all files of the commit log except the last, at its next attempts."""

    code: ClassVar[int] = 329
    name: ClassVar[str] = "DELETE_EXPIRED_COMMITLOG"


@dataclass(frozen=True, slots=True)
class ResetOffset(Done):
    """Ask a broker to change the offset from which a group reads a queue."""

    code: ClassVar[int] = 222
    name: ClassVar[str] = "INVOKE_BROKER_TO_RESET_OFFSET"
    group: str
    topic: str
    queue_id: int
    offset: int

    def list_fields(self) -> dict[str, str]:
        """List the fields. The last one is text, as Java writes it."""
        return {
            "group": self.group, "topic": self.topic, "queueId": str(self.queue_id),
            "offset": str(self.offset), "timestamp": "0", "isForce": "true",
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Leave(Done):
    """Tell a name server that a broker has ended."""

    code: ClassVar[int] = 104
    name: ClassVar[str] = "UNREGISTER_BROKER"
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@dataclass(frozen=True, slots=True)
class FollowBy(Done):
    """
    Tell a slave the address from which it copies its master's messages.

    RocketMQ 5.4 has the property `haMasterAddress` for this, but forgets its value at startup. The
    property has only one effect: the slave does not ask the name server for the address.
    """

    code: ClassVar[int] = 906
    name: ClassVar[str] = "EXCHANGE_BROKER_HA_INFO"
    master_ha_address: str
    master_address: str


@dataclass(frozen=True, slots=True)
class SendPlaced(Request[tuple[int, int]]):
    """Send a message; the answer has its offset and its position in the commit log."""

    code: ClassVar[int] = Send.code
    name: ClassVar[str] = Send.name
    group: str
    queue: MessageQueue
    content: bytes
    properties: str
    sys_flag: int

    def list_fields(self) -> dict[str, str]:
        """List the fields that a producer sends."""
        send = Send(self.group, self.queue, self.content, self.properties, 1, self.sys_flag)
        return send.list_fields()

    def encode_body(self) -> bytes:
        """Return the body of the message."""
        return self.content

    def read(self, answer: Frame) -> tuple[int, int]:
        """Read the position from the id that the broker has made from it."""
        return read_whole(answer, "queueOffset"), int(answer.fields["msgId"][-16:], 16)


class Ground:
    """The brokers, with methods that change their state."""

    def __init__(self, mq: RocketMq, slaves_way: Proxy, answers: Answers) -> None:
        """Keep the servers that were started."""
        self.mq = mq
        self.answers = answers
        self._slaves_way = slaves_way
        (self.master,) = mq.brokers.values()
        (self.slave,) = mq.slaves.values()
        self._client = Client(mq.name_server.address)

    @property
    def both(self) -> tuple[Broker, Broker]:
        """The master and the slave."""
        return self.master, self.slave

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, address: str, request: Request[Value_co]) -> Value_co:
        """Send a request over one shared connection, because a history sends many."""
        return self._client.engine.run(flows.ask(address, request, ANSWER_SECONDS))

    def ask_all(self, address: str, requests: Sequence[Request[Value_co]]) -> list[Value_co]:
        """Send all requests concurrently."""
        tasks = [
            self._client.start(flows.ask(address, request, ANSWER_SECONDS)) for request in requests
        ]
        return [self._client.wait(task) for task in tasks]

    def connect_slave(self) -> None:
        """Let the slave copy from its master through the relay."""
        self.ask(self.slave.address, FollowBy(self._slaves_way.address, self.master.address))

    def hold_slave(self) -> None:
        """Hold back everything between the master and its slave."""
        self._slaves_way.hold()

    def free_slave(self) -> None:
        """Let everything pass again."""
        self._slaves_way.let_go()

    def end(self, topic: str) -> int:
        """Return where the queue ends on the master."""
        return self.ask(self.master.address, GetMaxOffset(topic, 0))

    def slave_end(self, topic: str) -> int:
        """Return where the queue ends on the slave."""
        return self.ask(self.slave.address, GetMaxOffset(topic, 0))

    def lose_master(self) -> None:
        """Remove the master from the route, while it keeps running."""
        name = self.master.name
        leave = Leave(name, self.master.address, rocketmq.CLUSTER, 0)
        self.ask(self.mq.name_server.address, leave)

    def find_master(self, topic: str) -> None:
        """Put the master into the route again."""
        self.master.register()
        assert wait_for(lambda: self.master.is_in_route(topic), bool)

    def deleted_below(self, *, with_slave: bool) -> int:
        """Return where the commit log begins on the master or the slave, whichever is later."""
        brokers = self.both if with_slave else (self.master,)
        return max(
            int(self.ask(broker.address, GetRuntimeInfo())["commitLogMinOffset"])
            for broker in brokers
        )

    def delete_messages(self) -> None:
        """Ask both brokers to delete their oldest messages soon."""
        for broker in self.both:
            self.ask(broker.address, DeleteExpired())

    def deletions(self) -> dict[str, int]:
        """Count how often each broker has finished deleting."""
        return {broker.name: broker.log.read_text().count(_HAS_DELETED) for broker in self.both}

    def put(self, config: TopicConfig) -> None:
        """Create or change a topic on both brokers: a slave copies topics only once a minute."""
        for broker in self.both:
            self.ask(broker.address, cluster.PutTopics((config,)))
            assert wait_for(lambda: broker.is_in_route(config.topic), bool)  # noqa: B023


@contextlib.contextmanager
def started() -> Iterator[Ground]:
    """Run a name server, a master and a slave."""
    with Proxy("") as slaves_way:
        properties = {**PROPERTIES, "haMasterAddress": slaves_way.address}
        with rocketmq.run(brokers=1, slaves=1, properties=properties) as mq:
            host, _, port = mq.brokers["broker-a"].address.rpartition(":")
            slaves_way.target = f"{host}:{int(port) + 1}"
            with Answers(mq.name_server.address) as answers:
                ground = Ground(mq, slaves_way, answers)
                try:
                    ground.connect_slave()
                    yield ground
                finally:
                    ground.close()
