"""Prepares the broker of the benchmark: its topics, limits and messages."""

import contextlib
import time
from collections.abc import Iterator

from benchmarks.pull import messages, ours
from benchmarks.pull.player import Job
from mq_client import flows, pulling
from mq_client.blocking import Client
from mq_client.choosers import To
from mq_client.commands.cluster import PutBrokerConfig
from mq_client.values import MessageQueue
from sandbox import rocketmq
from sandbox.rocketmq import RocketMq

HEAP = "1g"
SENT_TOPIC, SENT_QUEUES = "sent", 8
JAVA_OPTIONS = ("-XX:TieredStopAtLevel=4",)  # the sandbox's default suits short runs
_PROPERTIES = {"waitTimeMillsInSendQueue": "10000"}  # by default a busy broker refuses after 0.2 s
_ANSWER_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
_RAISED = tuple(
    (f"maxTransfer{what}OnMessageIn{place}", str(limit))
    for place in ("Memory", "Disk")
    for what, limit in (("Count", pulling.MOST_MESSAGES), ("Bytes", pulling.MOST_BYTES))
)


@contextlib.contextmanager
def start() -> Iterator[RocketMq]:
    """Run one broker with the topic for sends."""
    with rocketmq.run(
        brokers=1, properties=_PROPERTIES, heap=HEAP, java_options=JAVA_OPTIONS
    ) as mq:
        mq.create_topics({SENT_TOPIC: SENT_QUEUES})
        yield mq


def fill(mq: RocketMq, job: Job) -> None:
    """Create the topic with all messages, and wait until they can be pulled."""
    mq.create_topics({job.topic: job.queues})
    with Client(mq.name_server.address) as client:
        for each in range(job.queues):
            queue = MessageQueue(job.topic, ours.BROKER, each)
            messages.send(client, job.topic, job.messages_a_queue, To(queue))
            while client.find_max_offset(queue) < job.messages_a_queue:
                time.sleep(_PAUSE_SECONDS)


def raise_caps(mq: RocketMq) -> None:
    """Raise the broker's limits to what our client requests."""
    (broker,) = mq.brokers.values()
    with Client(mq.name_server.address) as client:
        request = PutBrokerConfig(_RAISED)
        client.engine.run(flows.ask(broker.address, request, _ANSWER_SECONDS))
