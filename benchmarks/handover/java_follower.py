"""RocketMQ's push consumers as followers: the program of RocketMQ's side, with two more lines."""

import os
from pathlib import Path

from benchmarks import peers
from benchmarks.handover import members, pods, theirs
from benchmarks.handover.effects import Outcome
from benchmarks.handover.pods import Program
from sandbox import jars, java_follower
from sandbox.node.shop import Shop

NAME = "Java follower"
ABOUT = f"""{members.ABOUT}, and DefaultMQPushConsumer
  with `clients/java` in the pods of a StatefulSet, with default settings. A message counts
  as read when the listener receives it.
"""
IN_FLIGHT = 20
"""The number of threads of a consumer, each with one message: the client's defaults."""
SOURCE = theirs.SOURCE.with_name("Follow.java")


def compile_consumer() -> Path:
    """Compile `Follow NAME_SERVER TOPIC GROUP COORDINATOR NAMESPACE/GROUP TOKEN [AUTHORITIES]`."""
    libraries = [str(java_follower.compile_classes()), jars.fetch_classpath(peers.ROCKETMQ)]
    return jars.compile_sources([theirs.SOURCE, SOURCE], os.pathsep.join(libraries))


def make_program(topic: str) -> Program:
    """Describe the pods. In RocketMQ the group has the name of the ConsumerGroup."""
    return members.make_program(
        theirs.IMAGE,
        f'{theirs.JAVA} -cp "/classes:/follower:{theirs.LIBRARIES}" '
        f"Follow {pods.NAME_SERVER} {topic} {topic} {members.COORDINATOR} "
        f"{members.name_group(topic)} {members.TOKEN} {members.AUTHORITIES}",
        {"/classes": compile_consumer(), "/follower": java_follower.compile_classes()},
    )


def play(shop: Shop, topic: str) -> Outcome:
    """Play all events once."""
    return members.play(shop, topic, make_program(topic))
