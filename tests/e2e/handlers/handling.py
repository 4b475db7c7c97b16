"""
The handler of the story's followers. It writes down the numbers that it gets.

Each call writes all its lines in one write. So after a kill, the file has no incomplete line, and
it has the lines of every call that has returned.
"""

import os
from collections.abc import Sequence

from mq_client.messages import StoredMessage

_OUT = os.open(
    f"{os.environ['HANDLED']}/{os.environ['POD_NAME']}",
    os.O_CREAT | os.O_APPEND | os.O_WRONLY,
    0o644,
)


def handle(messages: Sequence[StoredMessage]) -> None:
    """Write down the numbers of one call."""
    os.write(_OUT, b"".join(each.body + b"\n" for each in messages))
