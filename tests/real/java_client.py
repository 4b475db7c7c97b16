"""Runs RocketMQ's Java client and its command-line tool in one Java process (Interop.java)."""

import base64
import json
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from mq_client import values
from sandbox import jars

HERE = Path(__file__).parent
TOOLS = "org.apache.rocketmq:rocketmq-tools:5.4.0"  # the tools depend on the client
ANSWER_SECONDS = 60.0
JAVA_OPTIONS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]


class JavaClient:
    """Runs one command after another. Java ends when its standard input or this process ends."""

    def __init__(self, name_server: str) -> None:
        """Start Java."""
        libraries = jars.fetch_classpath(TOOLS)
        classes = jars.compile_sources([HERE / "Interop.java"], libraries)
        self._name_server = name_server
        self._home = tempfile.TemporaryDirectory(prefix="evenkeel-interop-")
        self._log = Path(self._home.name, "log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    str(jars.find_java()), *JAVA_OPTIONS, f"-Duser.home={self._home.name}",
                    "-cp", f"{classes}:{libraries}", "Interop", name_server,
                ],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._home.cleanup()

    def send(
        self, queue: values.MessageQueue, *messages: dict[str, Any], codec: str = "ZLIB"
    ) -> dict[str, Any]:
        """Send one or more dictionaries from `message`; return the two ids and the queue."""
        sent: dict[str, Any] = self._do("send", **_names(queue), messages=messages, codec=codec)
        return sent

    def transact(self, topic: str, message: dict[str, Any], *, commits: bool) -> dict[str, Any]:
        """Send in a transaction, and commit it or roll it back at once."""
        sent: dict[str, Any] = self._do("transact", topic=topic, message=message, commits=commits)
        return sent

    def read(self, queue: values.MessageQueue, count: int) -> list[dict[str, Any]]:
        """Read messages from the queue's beginning, with the fields of `StoredMessage`."""
        found = self._do("read", **_names(queue), count=count)
        return [each | {"body": base64.b64decode(each["body"])} for each in found]

    def admin(self, *words: str) -> str:
        """Run `mqadmin` with these arguments; return its output."""
        return str(self._do("admin", words=[*words, "-n", self._name_server]))

    def _do(self, command: str, **facts: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": command, **facts}), file=self._process.stdin, flush=True)
        watchdog = threading.Timer(ANSWER_SECONDS, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        watchdog.join()
        answer = json.loads(line) if line else {"failed": "Java ended, or had to be ended"}
        assert "failed" not in answer, f"{command}: {answer['failed']}\n{self._end_of_log()}"
        return answer["done"]

    def _end_of_log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]


def message(
    body: bytes,
    *,
    tags: str | None = None,
    keys: Sequence[str] = (),
    properties: dict[str, str] | None = None,
    delay_level: int | None = None,
    flag: int = 0,
) -> dict[str, Any]:
    """Describe a message for `send` and `transact`."""
    facts = {
        "body": base64.b64encode(body).decode(),
        "flag": flag,
        "tags": tags,
        "keys": list(keys) or None,
        "properties": properties,
        "delayLevel": delay_level,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _names(queue: values.MessageQueue) -> dict[str, Any]:
    return {"topic": queue.topic, "broker": queue.broker, "queue": queue.id}
