"""Compiles the follower in Java as its pom.xml does, without Maven."""

import functools
from pathlib import Path

from sandbox import jars

CLIENT = "org.apache.rocketmq:rocketmq-client:5.4.0"
"""The RocketMQ client against which the follower is compiled."""
_SOURCES = Path(__file__).parents[1] / "clients" / "java" / "src" / "main" / "java"


@functools.cache
def compile_classes() -> Path:
    """Compile the follower for Java 8; return the folder of the classes."""
    sources = sorted(_SOURCES.rglob("*.java"))
    return jars.compile_sources(sources, jars.fetch_classpath(CLIENT), release=8)
