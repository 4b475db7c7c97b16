"""
The few requests that tell whether RocketMQ is ready: one connection each, JSON headers only.

Stands in for `mq_client` until its blocking transport can be used here.
"""

import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CREATE_TOPICS = 18
UPDATE_CONFIG = 25
RUNTIME_INFO = 28
ROUTE = 105
_JAVA_CLIENT_5_4_0 = 493


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: code 0 is success, anything else is explained by the remark."""

    code: int
    remark: str
    body: bytes


def ask(
    address: str, code: int, fields: Mapping[str, str] | None = None, body: bytes = b""
) -> Answer:
    """Send one request and wait for its answer; an `OSError` when there is none."""
    head = json.dumps(
        {
            "code": code,
            "language": "PYTHON",
            "version": _JAVA_CLIENT_5_4_0,
            "opaque": 1,
            "flag": 0,
            "extFields": dict(fields or {}),
            "serializeTypeCurrentRPC": "JSON",
        }
    ).encode()
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        sizes = struct.pack(">II", 4 + len(head) + len(body), len(head))
        connection.sendall(sizes + head + body)
        return _answer(connection)


def route(name_server: str, topic: str) -> dict[str, Any] | None:
    """Return what the name server knows of a topic; None when it does not know it."""
    fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
    answer = ask(name_server, ROUTE, fields)
    found: dict[str, Any] | None = json.loads(answer.body) if answer.code == 0 else None
    return found


def _answer(connection: socket.socket) -> Answer:
    with connection.makefile("rb") as stream:
        sizes = stream.read(8)
        if len(sizes) < 8:
            raise ConnectionError("the connection ended before the answer")
        total, head_size = struct.unpack(">II", sizes)
        head_size &= 0xFFFFFF
        head = json.loads(stream.read(head_size))
        return Answer(head["code"], head.get("remark") or "", stream.read(total - 4 - head_size))
