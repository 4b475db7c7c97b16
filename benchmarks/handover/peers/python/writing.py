"""
The handler of a follower. It writes a line of JSON for each call, as Push.java does.

Each line is one write. So if the process is killed, no line is incomplete, and no call lacks its
line.
"""

import json
import os
import sys
import time
from collections.abc import Sequence

from mq_client.messages import StoredMessage

_OUT = sys.stdout.fileno()


def handle(messages: Sequence[StoredMessage]) -> None:
    """Write down the messages of one call, which are all from one queue."""
    line = {
        "ms": time.time_ns() // 1_000_000,
        "broker": messages[0].broker,
        "queue": messages[0].queue_id,
        "numbers": [int(each.body) for each in messages],
        "stored": [each.store_timestamp_ms for each in messages],
    }
    os.write(_OUT, f"{json.dumps(line)}\n".encode())
