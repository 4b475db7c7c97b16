"""Builds Events of Kubernetes. Pure, except for the clock."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from contract.names import API_VERSION, LAST_REBALANCE
from evenkeel import times
from evenkeel.control.groups.group_status import Notice
from evenkeel.objects import ConsumerGroup

MOST_TEXT = 1024
COMPONENT = "evenkeel"


def build_event(group: ConsumerGroup, what: Notice) -> dict[str, Any]:
    """Build an Event."""
    now = times.format_time(datetime.now(UTC))
    key = group.head.key
    metadata: dict[str, Any] = {
        "generateName": f"{key.name[:200]}.",
        "namespace": key.namespace,
    }
    if what.rebalance is not None:  # `evenkeel explain` reads this annotation
        text = msgspec.json.encode(what.rebalance).decode()
        metadata["annotations"] = {LAST_REBALANCE: text}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "ConsumerGroup",
            "name": key.name,
            "namespace": key.namespace,
            "uid": group.head.uid,
            "resourceVersion": group.head.version,
        },
        "type": "Warning" if what.is_warning else "Normal",
        "reason": what.reason,
        "message": what.message[:MOST_TEXT],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
