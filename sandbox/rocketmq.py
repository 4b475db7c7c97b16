"""
Starts a RocketMQ 5.4.0 on loopback: a name server, and brokers with or without slaves.

    with rocketmq.run(brokers=2) as mq:
        mq.create_topics({"orders": 8})
        mq.brokers["broker-a"].kill()
        mq.brokers["broker-a"].restart()

When the block begins, all servers answer, and the name server's route lists all brokers. They are
gone with their data when the block ends, or when this process is killed. Until then a broker keeps
its data and its address, even if it is killed and restarted, unless `move` is called. RocketMQ
binds a broker's port for slaves to all interfaces; everything else is bound to 127.0.0.1.
"""

import abc
import contextlib
import shutil
import string
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mq_client import acl, errors
from mq_client.commands import cluster
from mq_client.commands.base import Request
from mq_client.values import MASTER_ID, TopicConfig
from sandbox import asking, jars, ports, process, server

Value = TypeVar("Value")
VERSION = "5.4.0"
CLUSTER = "DefaultCluster"
LIBRARIES = [f"org.apache.rocketmq:rocketmq-{part}:{VERSION}" for part in ("namesrv", "broker")]
DELETING_DISK_PERCENT = 85
"""
From this disk usage on, RocketMQ deletes its oldest messages, read or not. Its properties can only
lower the limit.
"""
MOST_DISK_PERCENT = 83
_STOP_SECONDS = 300.0
_REGISTER_SECONDS = 300.0
_PAUSE_SECONDS = 0.05
_SAYS_WHEN_STARTED = "boot success"
_SAYS_WHEN_IT_GIVES_UP = "Shutdown hook was invoked"  # after that, a broker needs 8 s to end

# By default RocketMQ writes thirty log files, and the reason of a failure is in one of them.
_LOGGING = """\
<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level %logger: %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="console"/></root>
</configuration>
"""

_JAVA_OPTIONS = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",  # if Java is killed, its performance data file remains
    "-Xms64m",
    # Milliseconds between a broker's attempts to find its name server (by default 3000). It
    # registers only after it has found one.
    "-Dcom.rocketmq.remoting.client.connect.timeout=500",
    # By default each server makes a key and a certificate at its start, which takes 2 s of a core.
    "-Dtls.server.mode=disabled",
]
_BROKER_PROPERTIES = {
    "brokerClusterName": CLUSTER,
    "brokerPermission": "6",
    "flushDiskType": "ASYNC_FLUSH",
    "bindAddress": "127.0.0.1",
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "autoCreateTopicEnable": "false",  # a typo in a test must not make a topic
    "autoCreateSubscriptionGroup": "true",
    "enablePropertyFilter": "true",
    "timerWheelEnable": "false",
    # RocketMQ 5.4 runs a busy loop until this time has passed once (by default 10 s).
    "transactionMetricFlushInterval": "500",
    "waitTimeMillsInSendQueue": "60000",  # by default 200: a busy machine would refuse messages
    "mappedFileSizeCommitLog": "67108864",
    "mappedFileSizeConsumeQueue": "1200000",
    "mappedFileSizeTimerLog": "16777216",
    "maxIndexNum": "200000",
    "maxHashSlotNum": "50000",
    "diskMaxUsedSpaceRatio": "95",
}


NO_ZONES: Mapping[str, str] = {}
POP_STORES: Mapping[str, Mapping[str, str]] = {
    "files": {"timerWheelEnable": "true"},
    "rocksdb": {
        "timerWheelEnable": "true",
        "popConsumerKVServiceInit": "true",
        "popConsumerKVServiceEnable": "true",
        "popConsumerFSServiceInit": "false",
    },
}
"""The properties of brokers that can pop, by the store of what is popped."""
POP_MEMORY = "-XX:MaxDirectMemorySize=1g"
"""With less, the file store may lose messages that should come again, without a word."""


class RouteError(process.SandboxError):
    """The name server does not list a broker or topic that was registered with it."""


@dataclass(frozen=True)
class _Java:
    """The settings that all servers of one RocketMQ have in common."""

    java: Path
    libraries: str
    place: process.Folder
    options: Sequence[str]
    credentials: acl.Credentials | None

    def start(
        self, name: str, main: str, properties: Mapping[str, str], environment: Mapping[str, str]
    ) -> process.ChildProcess:
        home = self.place.path / name
        home.mkdir(exist_ok=True)
        settings = home / "start.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        logging = home / "logback.xml"
        logging.write_text(_LOGGING)
        command: list[str | Path] = [
            self.java, *_JAVA_OPTIONS, *self.options,
            f"-Duser.home={home}", f"-Djava.io.tmpdir={home}",
            f"-Drmq.logback.configurationFile={logging}",
            "-cp", self.libraries, main, "-c", settings,
        ]  # fmt: skip
        own = {"ROCKETMQ_HOME": str(home), **environment}
        return process.ChildProcess(name, command, self.place, own)


class RocketMqServer(server.SandboxServer):
    """The part that name servers and brokers have in common."""

    main = ""

    def __init__(self, name: str, java: _Java) -> None:
        """Claim the ports; start nothing yet."""
        super().__init__(name)
        self._java = java

    def make_properties(self) -> dict[str, str]:
        """Return the server's properties. This is called at each start."""
        return {"listenPort": str(self.port), "bindAddress": "127.0.0.1"}

    def environment(self) -> dict[str, str]:
        """Return additional environment variables of the server's process."""
        return {}

    @property
    def address(self) -> str:
        """The server's address, as `127.0.0.1:port`."""
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Stop the server as an administrator does, which takes 10 s for a broker."""
        self._process.stop(_STOP_SECONDS)

    def _start_process(self) -> process.ChildProcess:
        return self._java.start(self.name, self.main, self.make_properties(), self.environment())

    def _is_ready(self) -> bool:
        if self._process.has_said(_SAYS_WHEN_IT_GIVES_UP):
            complaint = f"{self.name} gives up"
            raise process.PartNotReadyError(complaint, self.log, gives_up=_SAYS_WHEN_IT_GIVES_UP)
        return self._process.has_said(_SAYS_WHEN_STARTED) and self._answers()

    @abc.abstractmethod
    def _answers(self) -> bool:
        """Whether the server answers requests; its log only says that it has started."""

    def _ask(self, request: Request[Value]) -> Value:
        return asking.ask(self.address, request, self._java.credentials)


class NameServer(RocketMqServer):
    """The name server. It has no data: after a restart the brokers register again."""

    main = "org.apache.rocketmq.namesrv.NamesrvStartup"

    def __init__(self, java: _Java) -> None:
        """Claim a port."""
        super().__init__("name-server", java)
        self.brokers: list[Broker] = []

    def __str__(self) -> str:
        """Return the address, which clients need."""
        return self.address

    def restart(self) -> None:
        """Restart the name server. Wait until its route lists all running brokers."""
        super().restart()
        for broker in self.brokers:
            if broker.is_running:
                broker.rejoin()

    def list_addresses(self, topic: str) -> Collection[tuple[str, int, str]]:
        """List name, id and address of all brokers that have this topic."""
        try:
            route = self._ask(cluster.GetRoute(topic))
        except errors.TopicUnknownError:
            return set()
        return {
            (broker.broker, number, address)
            for broker in route.brokers
            for number, address in broker.addresses.items()
        }

    def _answers(self) -> bool:
        with contextlib.suppress(errors.UnavailableError):
            self.list_addresses(CLUSTER)
            return True
        return False


class Broker(RocketMqServer):
    """A broker, which is a master, or a slave with a number."""

    main = "org.apache.rocketmq.broker.BrokerStartup"

    def __init__(
        self,
        master: str,
        number: int,
        name_server: NameServer,
        java: _Java,
        properties: Mapping[str, str],
        zone: str,
    ) -> None:
        """Claim the ports. The number of a master is 0."""
        super().__init__(f"{master}-slave-{number}" if number else master, java)
        self.master = master
        self._number = number
        self._name_server = name_server
        self._properties = properties
        self._zone = zone
        name_server.brokers.append(self)

    @property
    def is_slave(self) -> bool:
        """Whether this broker is a slave of a master."""
        return self._number != MASTER_ID

    def environment(self) -> dict[str, str]:
        """Return the broker's zone, which it registers with the name server."""
        return {"ROCKETMQ_ZONE": self._zone} if self._zone else {}

    def move(self) -> None:
        """Restart the broker on another port, with its data."""
        old = self._ports
        self.kill()
        self._ports = ports.claim()
        old.release()
        self.restart()

    def rejoin(self) -> None:
        """Wait until the broker is in the route of a name server that was restarted."""
        self._process.wait_until(self._answers, _REGISTER_SECONDS)

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics with this number of queues each, or change them."""
        configs = [TopicConfig(name, queues, queues) for name, queues in topics.items()]
        self._ask(cluster.PutTopics(tuple(configs)))

    def is_in_route(self, topic: str) -> bool:
        """Whether the route of this topic contains this broker."""
        mine = (self.master, self._number, self.address)
        return mine in self._name_server.list_addresses(topic)

    def register(self) -> None:
        """
        Make the broker register all its topics with the name server now.

        By itself a broker registers at its start, when it may not have found the name server yet,
        and again after 10 s. It also registers when its permission is set, even to the same value.
        """
        permission = self.make_properties()["brokerPermission"]
        self._ask(cluster.PutBrokerConfig((("brokerPermission", permission),)))

    def make_properties(self) -> dict[str, str]:
        """Return the broker's properties. The caller's properties override ours."""
        return {
            **super().make_properties(),
            **_BROKER_PROPERTIES,
            "brokerName": self.master,
            "brokerId": str(self._number),
            "brokerRole": "SLAVE" if self.is_slave else "ASYNC_MASTER",
            "slaveReadEnable": str(self.is_slave).lower(),
            "namesrvAddr": self._name_server.address,
            "storePathRootDir": str(self._java.place.path / self.name / "store"),
            **self._properties,
        }

    def _answers(self) -> bool:
        # While it starts, a broker answers this request with an error.
        with contextlib.suppress(errors.UnavailableError, errors.UnexpectedError):
            self._ask(cluster.GetRuntimeInfo())
            # Each broker has a topic with the name of its cluster.
            if self.is_in_route(self.make_properties()["brokerClusterName"]):
                return True
            self.register()
        return False


@dataclass(frozen=True)
class RocketMq:
    """The servers that `run` has started."""

    name_server: NameServer
    brokers: Mapping[str, Broker]
    """The masters, by RocketMQ's broker name."""
    slaves: Mapping[str, Broker]
    """The slaves, by names like `broker-a-slave-1`."""

    def create_topics(
        self, topics: Mapping[str, int], brokers: Collection[str] | None = None
    ) -> None:
        """Create topics with this number of queues on these or all brokers; wait for the route."""
        masters = list(self.brokers) if brokers is None else brokers
        # Create them on slaves too: a slave copies its master's topics only once a minute.
        copies = [slave for slave in self.slaves.values() if slave.master in masters]
        chosen = [*(self.brokers[name] for name in masters), *copies]
        for broker in chosen:
            broker.create_topics(topics)
        for broker in chosen:
            for topic in topics:
                _wait_for_route(broker, topic)


@contextlib.contextmanager
def run(
    brokers: int = 2,
    *,
    slaves: int = 0,
    properties: Mapping[str, str] | None = None,
    heap: str = "256m",
    java_options: Sequence[str] = (),
    credentials: acl.Credentials | None = None,
    zones: Mapping[str, str] = NO_ZONES,
) -> Iterator[RocketMq]:
    """
    Run a name server and brokers named `broker-a`, `broker-b` and so on, each with its slaves.

    `properties` are RocketMQ's properties for all brokers. `heap` limits the heap of each server.
    `java_options` come after our own, so they override them. `credentials` are needed if the
    `properties` require them. `zones` are the zones of brokers, by broker name.
    """
    program = build()
    options = [f"-XX:SharedArchiveFile={program.archive}", f"-Xmx{heap}", *java_options]
    with contextlib.ExitStack() as claims, process.make_folder("evenkeel-rocketmq-") as place:
        disk = shutil.disk_usage(place.path)
        check_disk(place.path, disk.used, disk.free)
        common = _Java(program.java, program.libraries, place, options, credentials)
        mq = _prepare(brokers, slaves, common, properties or {}, zones)
        _start(mq, claims)
        yield mq


def check_disk(path: Path, used: int, free: int) -> None:
    """Refuse a disk on which brokers would soon delete messages."""
    percent = 100 * used / (used + free)
    if percent > MOST_DISK_PERCENT:
        raise process.SandboxError(
            f"the disk of {path} is {percent:.0f} % full, and RocketMQ deletes messages, read or "
            f"not, when it is more than {DELETING_DISK_PERCENT} % full: free some space"
        )


@dataclass(frozen=True)
class Program:
    """Java and the files with which RocketMQ's servers are started."""

    java: Path
    libraries: str
    archive: Path
    """An archive of the servers' classes, already read and verified, for a faster start."""


def build() -> Program:
    """Download RocketMQ and archive its classes, unless that is done already."""
    java = jars.find_java()
    if java is None:
        raise jars.NoJavaError("no Java: install a JDK 17 or newer, or set JAVA_HOME")
    libraries = jars.fetch_classpath(*LIBRARIES)
    folder = jars.find_cache() / "classes" / jars.digest("archive", str(java), libraries)
    archive = folder / "classes.jsa"

    def make(place: Path) -> None:
        listed = place / "classes"
        listed.write_text("".join(f"{line}\n" for line in _list_classes(java, libraries)))
        jars.run(
            java, "-Xshare:dump", f"-XX:SharedClassListFile={listed}",
            f"-XX:SharedArchiveFile={place / archive.name}",
            "-Xlog:disable", "-Xlog:all=error:stderr", "-cp", libraries,
        )  # fmt: skip

    jars.make_once(folder, "an archive of RocketMQ's classes", make)
    return Program(java, libraries, archive)


def _list_classes(java: Path, libraries: str) -> list[str]:
    """List what a name server and a broker load until they are ready."""
    options = ["-XX:DumpLoadedClassList=classes"]
    with contextlib.ExitStack() as claims, process.make_folder("evenkeel-rocketmq-") as place:
        mq = _prepare(1, 0, _Java(java, libraries, place, options, None), {}, NO_ZONES)
        _start(mq, claims)
        texts = [
            (place.path / each.name / "classes").read_text(encoding="utf-8")
            for each in (mq.name_server, *mq.brokers.values())
        ]
    # Java may not have written its last line to the end.
    return sorted({line for text in texts for line in text.splitlines()[:-1]})


def _start(mq: RocketMq, claims: contextlib.ExitStack) -> None:
    """Start all servers, and wait until they are ready; `claims` releases their ports."""
    servers = [mq.name_server, *mq.brokers.values(), *mq.slaves.values()]
    for each in servers:
        claims.callback(each.release)
    for each in servers:
        each.start()
    for each in servers:
        each.wait_until_ready()
    for slave in mq.slaves.values():
        slave.register()  # the answer tells the slave its master, which may have started later


def _prepare(
    brokers: int,
    slaves: int,
    java: _Java,
    properties: Mapping[str, str],
    zones: Mapping[str, str],
) -> RocketMq:
    """Make all servers, but do not start them."""
    name_server = NameServer(java)
    made = [
        Broker(name, number, name_server, java, properties, zones.get(name, ""))
        for name in (f"broker-{letter}" for letter in string.ascii_lowercase[:brokers])
        for number in range(slaves + 1)
    ]
    return RocketMq(
        name_server,
        {broker.name: broker for broker in made if not broker.is_slave},
        {broker.name: broker for broker in made if broker.is_slave},
    )


def _wait_for_route(broker: Broker, topic: str) -> None:
    deadline = time.monotonic() + _REGISTER_SECONDS
    while not broker.is_in_route(topic):
        if time.monotonic() > deadline:
            raise RouteError(
                f"topic {topic} of {broker.name} is not in the route; see {broker.log}"
            )
        broker.register()
        time.sleep(_PAUSE_SECONDS)
