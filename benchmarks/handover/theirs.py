"""RocketMQ's push consumers as they are: they divide the queues among themselves."""

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

from benchmarks import peers
from benchmarks.handover import pods, scene
from benchmarks.handover.consumers import Consumers
from benchmarks.handover.effects import Outcome
from benchmarks.handover.pods import Pods, Program
from mq_client.blocking import Client
from mq_client.values import TopicConfig
from sandbox import jars, rocketmq
from sandbox.node.shop import Shop, wait_patiently

NAME = "DefaultMQPushConsumer"
ABOUT = """in the pods of a StatefulSet, in clustering mode, with default settings and the
  default strategy. A message counts as read when the listener receives it.
"""
IMAGE = f"apache/rocketmq:{rocketmq.VERSION}"
JAVA = "java -Xms128m -Xmx128m"
LIBRARIES = "$ROCKETMQ_HOME/lib/*"
SOURCE = Path(__file__).parent / "peers" / "jvm" / "Push.java"


def compile_consumer() -> Path:
    """Compile the program of a consumer: `Push NAME_SERVER TOPIC GROUP`."""
    return jars.compile_sources([SOURCE], jars.fetch_classpath(peers.ROCKETMQ))


def make_program(topic: str) -> Program:
    """Describe the pods."""
    return Program(
        IMAGE,
        f'{JAVA} -cp "/classes:{LIBRARIES}" Push {pods.NAME_SERVER} {topic} group-{topic}',
        {"/classes": compile_consumer()},
    )


def set_queues(client: Client, topic: str, count: int) -> None:
    """Create a topic, or change how many queues it has on each broker."""
    client.put_topics([TopicConfig(topic, count, count)])


@contextlib.contextmanager
def start(shop: Shop, client: Client, topic: str) -> Iterator[Consumers]:
    """Create a topic, and run consumers in pods until the context is left."""
    wait_patiently(client.list_brokers, lambda it: len(it.brokers) == scene.BROKERS_COUNT)
    set_queues(client, topic, scene.QUEUES)
    change = functools.partial(set_queues, client, topic)
    with pods.start(Pods(shop, topic), make_program(topic), change) as side:
        yield side


def play(shop: Shop, topic: str) -> Outcome:
    """Play all events once."""
    return scene.play(shop, topic, start, scene.EVENTS)
